"""Addresses of outside data: distinguishes them from paths, and rejects those with a secret.

Addresses are stored in pipelines, metadata, logs and messages; a password in one would be, too.
"""

import re
from urllib.parse import unquote_plus

from penstock.components.errors import UsageError
from penstock.components.files.secrets import is_secret_parameter, secret_kind

_ADDRESS = re.compile(r"^([a-z][a-z0-9+.-]*)(?:://|::)", re.I)
# Hadoop's names for s3.
_OTHER_NAMES = {"s3a": "s3", "s3n": "s3"}
# For these schemes a login can only be before the first slash; file names may have any character.
FILE_SCHEMES = ("s3", "gs", "http", "https")
_LOGIN_OF_FILES = re.compile(r"^[^/?#]*:[^/?#]*@")
_LOGIN = re.compile(r"^[^?]*:[^?]*@")
_WEB_SCHEMES = ("http", "https")
_PARAMETERS_BEGIN = re.compile(r"[?#;]")


def scheme_of(text: str) -> str | None:
    found = _ADDRESS.match(text)
    return _OTHER_NAMES.get(found[1].lower(), found[1].lower()) if found else None


def masked(text: str) -> str:
    """Removes login and parameters from a text, which may be an address, for messages."""
    scheme, separator, rest = text.partition("://")
    if not separator:
        scheme, rest = "", text
    if scheme_of(text) in FILE_SCHEMES:
        place, slash, name = rest.partition("/")
    else:
        place, slash, name = rest, "", ""
    login, at, host = place.rpartition("@")
    shown = _PARAMETERS_BEGIN.split(f"{host}{slash}{name}", maxsplit=1)[0]
    return f"{scheme}{separator}{'***' if login else ''}{at}{shown}"[:200]


def check_no_secret(address: str, advice: str) -> None:
    """Raises a UsageError if an address contains a secret; the message does not repeat it.

    `advice` says where to put the secret instead.
    """
    scheme, separator, rest = address.partition("://")
    if not separator:
        rest = ""
    place, *_ = rest.split("?", maxsplit=1)
    login = _LOGIN_OF_FILES if scheme_of(address) in FILE_SCHEMES else _LOGIN
    if login.match(place):
        raise UsageError(f"{masked(address)}: the address holds a password; {advice}")
    if scheme.lower() in _WEB_SCHEMES and "@" in re.split(r"[/?#]", rest, maxsplit=1)[0]:
        raise UsageError(
            f"{masked(address)}: the address holds a user name, which may be a token; {advice}"
        )
    for parameter in re.split(r"[?&#;]", address)[1:]:
        key, _, value = parameter.partition("=")
        key, value = unquote_plus(key), unquote_plus(value)
        if is_secret_parameter(key, value) or secret_kind("", value):
            raise UsageError(f"{masked(address)}: its {key!r} holds a secret; {advice}")
    if kind := secret_kind("", address):
        shown = masked(address)
        shown = "***" if secret_kind("", shown) else shown
        raise UsageError(f"{shown}: the address holds {kind}; {advice}")
