"""Addresses of outside data that are no paths: told apart, and refused where they hold a secret.

An address travels in pipelines, metadata, logs and messages; a password in it would too.
"""

import re
from urllib.parse import parse_qsl

from penstock.components.errors import UsageError

_ADDRESS = re.compile(r"^([a-z][a-z0-9+.-]*)(?:://|::)", re.I)
# Of these a login stands before the first slash; a name of a file may have any character.
FILE_SCHEMES = ("s3", "gs", "hdfs", "http", "https")
_LOGIN_OF_FILES = re.compile(r"^[^/?#]*:[^/?#]*@")
_LOGIN = re.compile(r"^[^?]*:[^?]*@")
_SECRET_KEY = re.compile(
    r"(pass(word|wd|phrase)?|pwd|secret|token|(api|access)[-_]?key([-_]?id)?|signature|sig|credentials?)$",
    re.I,
)
_SECRET_VALUE = re.compile(r"(password|passwd|pwd|secret|token)\s*=", re.I)


def scheme_of(text: str) -> str | None:
    """The scheme of an address, in small letters; None of a path."""
    found = _ADDRESS.match(text)
    return found[1].lower() if found else None


def masked(text: str) -> str:
    """What may be an address, for messages: without what may be secret in it."""
    text = re.split(r"[?#]", text, maxsplit=1)[0]
    scheme, separator, rest = text.rpartition("://")
    if scheme.lower() in FILE_SCHEMES:
        place, slash, name = rest.partition("/")
    else:
        place, slash, name = rest, "", ""
    login, at, host = place.rpartition("@")
    return f"{scheme}{separator}{'***' if login else ''}{at}{host}{slash}{name}"[:200]


def check_no_secret(address: str, advice: str) -> None:
    """Refuse an address with a password, a token or a signature in it.

    Args:
        address: Of any scheme.
        advice: Where the secret belongs instead.

    Raises:
        UsageError: It holds one; does not repeat it.
    """
    rest, _, query = address.partition("?")
    scheme, _, place = rest.partition("://")
    login = _LOGIN_OF_FILES if scheme.lower() in FILE_SCHEMES else _LOGIN
    if login.match(place):
        raise UsageError(f"{masked(address)}: the address holds a password; {advice}")
    for key, value in parse_qsl(query, keep_blank_values=True):
        if _SECRET_KEY.search(key) or _SECRET_VALUE.search(value):
            raise UsageError(f"{masked(address)}: its {key!r} holds a secret; {advice}")
