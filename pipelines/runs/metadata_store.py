"""Where the metadata of runs is kept: an sqlite file, or a MySQL database.

A MySQL user and password come from the environment alone, so that no argument, compiled
pipeline or process list holds them.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from penstock.components.errors import DataError, UsageError

MYSQL_USER = "PENSTOCK_MYSQL_USER"
MYSQL_PASSWORD = "PENSTOCK_MYSQL_PASSWORD"


@dataclass(frozen=True)
class SqliteStore:
    """A metadata store in one file, made where there is none.

    Attributes:
        path: The file.
    """

    path: str
    advice: ClassVar[str] = "is the file whole, and may it be written to?"

    def __post_init__(self) -> None:
        if not self.path:
            raise UsageError("the metadata's sqlite file needs a path")

    def connection_config(self) -> Any:
        """An `ml_metadata.proto.ConnectionConfig`."""
        from tfx.orchestration.metadata import sqlite_metadata_connection_config

        path = os.path.abspath(self.path)
        try:
            os.makedirs(os.path.dirname(path), exist_ok=True)
        except OSError as error:
            raise DataError(f"{path}: cannot keep metadata there ({error.strerror})") from error
        return sqlite_metadata_connection_config(path)

    def hide_secrets(self, text: str) -> str:
        """`text`: there are none."""
        return text

    def __str__(self) -> str:
        return self.path


@dataclass(frozen=True)
class MySqlStore:
    """A metadata store in a MySQL (or MariaDB) database.

    Attributes:
        host: Name or address of the server.
        port: Its port, 1 to 65535.
        database: Name of the database, made where there is none.
    """

    host: str = ""
    port: int = 3306
    database: str = "penstock"
    # MLMD 1.21 gives no reason for a failed log-in; so what to look at stands in the message.
    advice: ClassVar[str] = (
        f"does the server answer, and are {MYSQL_USER} and {MYSQL_PASSWORD} right?"
    )

    def __post_init__(self) -> None:
        if not self.host or any(c in self.host for c in "/@ "):
            raise UsageError(f"a MySQL host is a name or an address, got {self.host!r}")
        if not 1 <= self.port <= 65535:
            raise UsageError(f"a MySQL port is 1 to 65535, got {self.port}")
        if not self.database:
            raise UsageError("the MySQL database needs a name")

    def connection_config(self, environment: Mapping[str, str] = os.environ) -> Any:
        """An `ml_metadata.proto.ConnectionConfig`, user and password from the environment.

        Raises:
            UsageError: The environment lacks them.
        """
        from tfx.orchestration.metadata import mysql_metadata_connection_config

        for name in (MYSQL_USER, MYSQL_PASSWORD):
            if not environment.get(name):
                raise UsageError(f"set {name} in the environment to log in to {self}")
        return mysql_metadata_connection_config(
            host=self.host,
            port=self.port,
            database=self.database,
            username=environment[MYSQL_USER],
            password=environment[MYSQL_PASSWORD],
        )

    def hide_secrets(self, text: str) -> str:
        """`text` without the password, which a client library may quote in its errors."""
        password = os.environ.get(MYSQL_PASSWORD)
        return text.replace(password, "***") if password else text

    def __str__(self) -> str:
        return f"mysql://{self.host}:{self.port}/{self.database}"


MetadataStore = SqliteStore | MySqlStore
