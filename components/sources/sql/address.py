"""Addresses and logins of databases; no other module handles passwords.

An address travels in pipelines, logs and messages, so it must not hold a password. User and
password are read from the environment or a file, in the process that connects.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from penstock.components.errors import DataError, UsageError
from penstock.components.files.address import check_no_secret, masked

try:
    from sqlalchemy.engine import URL, make_url
    from sqlalchemy.exc import ArgumentError
except ModuleNotFoundError as error:
    raise UsageError("kind 'sql' needs SQLAlchemy: pip install 'penstock-tfx[sql]'") from error

USER_VARIABLE = "PENSTOCK_SQL_USER"
PASSWORD_VARIABLE = "PENSTOCK_SQL_PASSWORD"
HOW_TO_LOG_IN = f"set {PASSWORD_VARIABLE} or a `credentials_file` instead"
# Driver that the extra `sql` installs.
_DRIVERS = {"postgresql": "postgresql+psycopg", "postgres": "postgresql+psycopg"}


class Login(NamedTuple):
    """User name and password of a connection; None if not given."""

    user: str | None
    password: str | None

    def hide(self, text: str) -> str:
        return text.replace(self.password, "***") if self.password else text


def parse_address(text: str) -> URL:
    """Parses the address of a database; UsageError (without the address) if it has a password."""
    check_no_secret(text, HOW_TO_LOG_IN)
    try:
        url = make_url(text)
    except (ArgumentError, ValueError) as error:
        raise UsageError(
            f"{masked(text)}: expected the address of a database, as sqlite:///trips.db or "
            "postgresql://host/name"
        ) from error
    return url.set(drivername=_DRIVERS.get(url.drivername, url.drivername))


def shown_address(url: URL) -> str:
    """Returns an address for messages, without the driver's options."""
    return url.set(query={}).render_as_string(hide_password=True)


def read_login(credentials_file: str | None, environment: Mapping[str, str] = os.environ) -> Login:
    if credentials_file is None:
        return Login(environment.get(USER_VARIABLE), environment.get(PASSWORD_VARIABLE))
    try:
        lines = Path(credentials_file).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "not UTF-8"
        raise DataError(f"{credentials_file}: cannot read the credentials ({reason})") from error
    found: dict[str, str] = {}
    for number, line in enumerate(lines, 1):
        name, equals, value = line.partition("=")
        if not line.strip() or line.startswith("#"):
            continue
        if not equals or name.strip() not in Login._fields:
            raise DataError(
                f"{credentials_file}: line {number}: expected `user = ...` or `password = ...`"
            )
        found[name.strip()] = value.strip()
    return Login(found.get("user"), found.get("password"))
