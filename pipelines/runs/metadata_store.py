"""The metadata store of runs: an sqlite file or a MySQL database.

User and password of MySQL are read only from the environment, so that no argument, compiled
pipeline or process list contains them.
"""

import fcntl
import os
import re
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from penstock.components.errors import DataError, UsageError
from penstock.pipelines.terminal.failures import brief

_MAGIC = b"SQLite format 3\0"
_TABLES = {"Context", "Execution"}
_ADDRESS = re.compile(
    r"mysql://(\[[^]]+\]|[^]\[/:@?#]+)(?::(\d+))?/([^/?#]+)(?:\?tls=([^&#]*[^&#\s]))?"
)
MYSQL_USER = "PENSTOCK_MYSQL_USER"
MYSQL_PASSWORD = "PENSTOCK_MYSQL_PASSWORD"


@dataclass(frozen=True)
class SqliteStore:
    """A metadata store in an sqlite file, created if missing."""

    path: str
    advice: ClassVar[str] = (
        "is the file whole, may it be written to, and has its disk room and inodes (df -h, df -i)?"
    )

    def __post_init__(self) -> None:
        if not self.path:
            raise UsageError("the metadata's sqlite file needs a path")

    def connection_config(self) -> Any:
        """Returns an `ml_metadata.proto.ConnectionConfig`."""
        from ml_metadata.proto import metadata_store_pb2 as mlmd

        path = os.path.abspath(self.path)
        try:
            os.makedirs(os.path.dirname(path), exist_ok=True)
        except OSError as error:
            raise DataError(f"{path}: cannot keep metadata there ({error.strerror})") from error
        mode = mlmd.SqliteMetadataSourceConfig.READWRITE_OPENCREATE
        sqlite = mlmd.SqliteMetadataSourceConfig(filename_uri=path, connection_mode=mode)
        return mlmd.ConnectionConfig(sqlite=sqlite)

    def __str__(self) -> str:
        return self.path


@dataclass(frozen=True)
class MySqlStore:
    """A metadata store in a MySQL (or MariaDB) database, created if missing.

    `host` may be an IPv6 address without brackets. `tls` is a folder with `ca.crt` and, if the
    server requires a client certificate, `tls.crt` and `tls.key`; without `tls` the connection is
    not encrypted. MLMD's client does not verify that the server's certificate belongs to the host.
    """

    host: str = ""
    port: int = 3306
    database: str = "penstock"
    tls: str | None = None
    # MLMD 1.21 gives no reason for a failed login, so the message lists what to check.
    advice: ClassVar[str] = (
        f"does the server answer, and are {MYSQL_USER} and {MYSQL_PASSWORD} right?"
    )

    def __post_init__(self) -> None:
        # A host with one colon would include a port; an IPv6 address has more colons.
        if not self.host or any(c in self.host for c in "/@ []") or self.host.count(":") == 1:
            raise UsageError(f"a MySQL host is a name or an address, got {self.host!r}")
        if not 1 <= self.port <= 65535:
            raise UsageError(f"a MySQL port is 1 to 65535, got {self.port}")
        if not self.database:
            raise UsageError("the MySQL database needs a name")

    def connection_config(self, environment: Mapping[str, str] = os.environ) -> Any:
        """Returns an `ml_metadata.proto.ConnectionConfig` with the login from the environment."""
        from ml_metadata.proto import metadata_store_pb2 as mlmd

        for name in (MYSQL_USER, MYSQL_PASSWORD):
            if not environment.get(name):
                raise UsageError(f"set {name} in the environment to log in to {self}")
        mysql = mlmd.MySQLDatabaseConfig(
            host=self.host,
            port=self.port,
            database=self.database,
            user=environment[MYSQL_USER],
            password=environment[MYSQL_PASSWORD],
        )
        if self.tls is not None:
            mysql.ssl_options.CopyFrom(mlmd.MySQLDatabaseConfig.SSLOptions(**_tls(self.tls)))
        return mlmd.ConnectionConfig(mysql=mysql)

    @property
    def address(self) -> str:
        """Address of the store in the form that `store_of` parses."""
        return f"{self}?tls={self.tls}" if self.tls else str(self)

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"mysql://{host}:{self.port}/{self.database}"


def _tls(folder: str) -> dict[str, str]:
    # verify_server_cert stays off: if it is on, MLMD 1.16 refuses even a valid certificate.
    ca, cert, key = (os.path.join(folder, name) for name in ("ca.crt", "tls.crt", "tls.key"))
    if not os.path.exists(ca):
        raise UsageError(f"{ca}: no such file; an encrypted connection to MySQL needs it")
    return {"ca": ca, **({"cert": cert, "key": key} if os.path.exists(cert) else {})}


MetadataStore = SqliteStore | MySqlStore


def store_of(text: str) -> MetadataStore:
    """Returns the store in a file or at an address, `mysql://HOST[:PORT]/DATABASE[?tls=FOLDER]`."""
    if not is_address(text):
        return SqliteStore(text)
    # Unknown options are errors, because a misspelt `tls` would leave the connection unencrypted.
    match = _ADDRESS.fullmatch(text)
    if match is None:
        raise UsageError(
            "expected mysql://HOST[:PORT]/DATABASE, an IPv6 host in brackets, and ?tls=FOLDER with "
            f"its ca.crt to encrypt; {MYSQL_USER} and {MYSQL_PASSWORD} log in"
        )
    host, port, database, tls = match.groups()
    return MySqlStore(host.strip("[]"), int(port or MySqlStore.port), database, tls)


def is_address(text: str) -> bool:
    """Returns whether a text is the address of a MySQL store, not a file."""
    return text.startswith("mysql://")


def is_metadata(file: str) -> bool:
    """Returns whether a file is an sqlite database that is locked or has MLMD's tables."""
    try:
        with open(file, "rb") as opened:
            if opened.read(len(_MAGIC)) != _MAGIC:
                return False
        address = f"{Path(file).absolute().as_uri()}?mode=ro"
        with closing(sqlite3.connect(address, uri=True, timeout=0)) as store:
            tables = store.execute("select name from sqlite_master where type = 'table'")
            return {name for (name,) in tables} >= _TABLES
    except sqlite3.OperationalError:
        return True
    except (OSError, sqlite3.DatabaseError):
        return False


def hide_password(text: str) -> str:
    """Removes MySQL's password from a text; client libraries may quote it in their errors."""
    password = os.environ.get(MYSQL_PASSWORD)
    return text.replace(password, "***") if password else text


@contextmanager
def store_errors(store: MetadataStore) -> Iterator[None]:
    """Turns errors of MLMD in the block into one-line DataErrors that name the store."""
    from ml_metadata import errors

    try:
        yield
    except (errors.StatusError, RuntimeError) as error:
        raise DataError(unusable(store, error)) from error


def unusable(store: MetadataStore, error: Exception) -> str:
    """Formats an error of MLMD as one line that names the store."""
    reason = hide_password(brief(str(error))).partition(" query: ")[0]
    return f"{store}: the metadata store cannot be used: {reason}; {store.advice}"


@contextmanager
def open_store(store: MetadataStore) -> Iterator[Any]:
    """Yields the store as TFX's `Metadata`, opened for reading and writing."""
    from tfx.orchestration.metadata import Metadata

    with store_errors(store), Metadata(store.connection_config()) as handle:
        yield handle


@contextmanager
def open_reading(store: MetadataStore, *, writable: bool = False) -> Iterator[Any]:
    """Yields an existing store as an `ml_metadata.MetadataStore`.

    An sqlite file is opened read-only unless `writable`.
    """
    import ml_metadata
    from ml_metadata.proto import metadata_store_pb2

    if isinstance(store, SqliteStore) and not is_metadata(store.path):
        with open(store.path, "rb"):  # raises OSError if the file cannot be read
            raise DataError(f"{store}: is no metadata store of runs")
    connection = store.connection_config()
    if connection.HasField("sqlite") and not writable:
        connection.sqlite.connection_mode = metadata_store_pb2.SqliteMetadataSourceConfig.READONLY
    with store_errors(store):
        yield ml_metadata.MetadataStore(connection)


@contextmanager
def only_run(folder: Path) -> Iterator[None]:
    """Holds the lock of `folder` during the block; the lock ends with the process.

    Raises:
        DataError: Another process holds the lock.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("a+") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            lock.seek(0)
            raise DataError(
                f"{folder}: another run is at work (process {lock.read().strip() or 'unknown'}); "
                "wait for it, or use another folder"
            ) from error
        lock.truncate(0)
        lock.write(str(os.getpid()))
        lock.flush()
        try:
            yield
        finally:
            fcntl.flock(lock, fcntl.LOCK_UN)  # otherwise a forked child would keep the lock
