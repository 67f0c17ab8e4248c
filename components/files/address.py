"""Distinguishes addresses of outside data from paths, and rejects addresses that contain a secret.

Addresses are stored in pipelines, metadata, logs and messages, and a password in them would be
stored too.
"""

import re

from penstock.components.errors import UsageError
from penstock.components.files.secrets import secret_kind

_ADDRESS = re.compile(r"^([a-z][a-z0-9+.-]*)(?:://|::)", re.I)
# Hadoop's names for s3.
_OTHER_NAMES = {"s3a": "s3", "s3n": "s3"}
# In these schemes, a login must be before the first slash; later characters belong to file names.
FILE_SCHEMES = ("s3", "gs", "http", "https")
_LOGIN = re.compile(r"://[^?]*:[^?]*@")
_PARAMETERS_BEGIN = re.compile(r"[?#;]")


def scheme_of(text: str) -> str | None:
    found = _ADDRESS.match(text)
    return _OTHER_NAMES.get(found[1].lower(), found[1].lower()) if found else None


def masked(text: str) -> str:
    """Returns an address for a message: with `***` as its login, and without parameters."""
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
    kind = secret_kind("", address)
    if scheme_of(address) not in FILE_SCHEMES and _LOGIN.search(address):
        kind = "a password in an address"
    if kind:
        shown = masked(address)
        shown = "***" if secret_kind("", shown) else shown
        raise UsageError(f"{shown}: the address holds a secret ({kind}); {advice}")
