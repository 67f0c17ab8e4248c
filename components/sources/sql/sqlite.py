"""SQLite as a database: the digest is the file's, and every worker checks that it is unchanged."""

import hashlib
import json
import os
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

from sqlalchemy.engine import URL, Connection

from penstock.components.errors import DataError, UsageError
from penstock.components.files.content import hash_file, open_data
from penstock.components.sources.sql.address import Login
from penstock.components.sources.sql.database import Database
from penstock.components.sources.sql.statements import Statements

# Counter of changes in the file's header; in WAL mode the log's size and time change instead.
_CHANGE_COUNTER = slice(24, 28)


class SqliteDatabase(Database):
    """A database file, opened read-only."""

    def __init__(self, url: URL, credentials_file: str | None) -> None:
        if not url.database or url.database == ":memory:" or url.database.startswith("file:"):
            raise UsageError(
                f"{url}: expected a path: sqlite:///trips.db, sqlite:////data/trips.db"
            )
        self.path = url.database
        with open_data(self.path):  # Its error is clearer than sqlite's, which may create the file.
            pass
        options = {**url.query, "mode": "ro", "uri": "true"}
        name = "file:" + quote(os.path.abspath(self.path))
        super().__init__(url.set(database=name, query=options), credentials_file)
        self.shown = self.path

    @property
    def input_bytes(self) -> int:
        """Size of the file, with all its tables."""
        return os.path.getsize(self.path)

    def _login(self) -> Login:
        return Login(None, None)

    def _begin(self, connection: Connection, mark: str | None) -> None:
        # Workers fetch text as bytes: to decode and encode it again takes 1.5 us per row of eight
        # texts. Planning fetches keys as text, since it sends them back.
        driver: Any = connection.connection.driver_connection
        driver.text_factory = bytes if mark else partial(str, encoding="utf-8", errors="replace")
        with self.errors_named():
            connection.exec_driver_sql("BEGIN")
            connection.exec_driver_sql("SELECT count(*) FROM sqlite_master").all()
        if mark is not None and mark != self.mark(connection):
            raise DataError(f"{self.path}: was changed since the work was planned; start again")

    def mark(self, connection: Connection) -> str:
        """Returns a name of the file's state, which changes with every commit."""
        del connection
        stat = os.stat(self.path)
        with open_data(self.path) as file:
            counter = file.read(100)[_CHANGE_COUNTER].hex()
        return json.dumps([stat.st_size, stat.st_mtime_ns, counter, *self._log_state()])

    def _log_state(self) -> tuple[int, int]:
        """Returns size and time of the write-ahead log; zeros if it is empty."""
        try:
            stat = os.stat(self._log)
        except FileNotFoundError:
            return 0, 0
        return (stat.st_size, stat.st_mtime_ns) if stat.st_size else (0, 0)

    @property
    def _log(self) -> str:
        return self.path + "-wal"

    def counts_and_digest(
        self, statements: Statements, connection: Connection
    ) -> tuple[int, int, bytes]:
        """Returns the counts, and a digest of the whole file (all tables)."""
        before = self.mark(connection)
        digest = hashlib.sha256()
        for path in (self.path, self._log):
            if Path(path).exists():
                digest.update(hash_file(path).sha256)
        count, keys = self.counts(statements, connection)
        if self.mark(connection) != before:
            raise DataError(f"{self.path}: was changed while it was read; start again")
        return count, keys, digest.digest()
