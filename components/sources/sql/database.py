"""A database that SQLAlchemy can reach: its address and login, one transaction, streamed rows.

An address is stored in pipelines, logs and messages, so it must not contain a password. User and
password are read from the environment or a file, in the process that connects.
"""

import hashlib
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

from penstock.components.errors import DataError, TriesFailedError, UsageError
from penstock.components.files.address import check_no_secret, masked
from penstock.components.files.content import hash_file, look
from penstock.components.tfrecord.feature_kind import FeatureKind

try:
    import sqlalchemy as sa
    from sqlalchemy.engine import URL, Connection, CursorResult, make_url
    from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchTableError, SQLAlchemyError
    from sqlalchemy.pool import NullPool
    from sqlalchemy.sql.expression import Executable, Select, TextClause
    from sqlalchemy.types import NullType
except ModuleNotFoundError as error:
    raise UsageError("kind 'sql' needs SQLAlchemy: pip install 'penstock-tfx[sql]'") from error

USER_VARIABLE = "PENSTOCK_SQL_USER"
PASSWORD_VARIABLE = "PENSTOCK_SQL_PASSWORD"
HOW_TO_LOG_IN = f"set {PASSWORD_VARIABLE} or a `credentials_file` instead"
# Driver that the extra `sql` installs, by the scheme of an address without a driver.
_DRIVERS = {"postgresql": "postgresql+psycopg", "postgres": "postgresql+psycopg"}
# Semicolons at the end of a query, and comments after them. The pattern does not match them if
# they contain or precede a quote, because they may be part of a text literal; the database then
# accepts or refuses them.
_END = re.compile(r"""(?:;(?:\s|--[^\n'"`$]*(?:\n|\Z)|/\*[^'"`$*]*\*/)*)*\s*\Z""")

Feature = tuple[FeatureKind | None, bool]
"""Kind of a column (None if unknown), and whether it holds lists."""


class Login(NamedTuple):
    """User name and password of a connection; None if they are not given."""

    user: str | None = None
    password: str | None = None


def parse_address(text: str) -> URL:
    """Parses a database's address; raises UsageError if it is invalid or contains a password.

    The error's message masks the login.
    """
    check_no_secret(text, HOW_TO_LOG_IN)
    try:
        url = make_url(text)
    except (ArgumentError, ValueError) as error:
        raise UsageError(
            f"{masked(text)}: expected the address of a database, as sqlite:///trips.db or "
            "postgresql://host/name"
        ) from error
    return url.set(drivername=_DRIVERS.get(url.drivername, url.drivername))


def read_login(credentials_file: str | None) -> Login:
    if credentials_file is None:
        return Login(os.environ.get(USER_VARIABLE), os.environ.get(PASSWORD_VARIABLE))
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
    return Login(**found)


class Database:
    """Any database; subclasses may know the types of columns and a digest of the data."""

    # Whether two columns may have names that differ only in case, which most databases refuse
    tells_case = False

    def __init__(self, url: URL, credentials_file: str | None) -> None:
        self.url = url
        # The address for messages, without the driver's options
        self.shown = url.set(query={}).render_as_string(hide_password=True)
        self._credentials_file = credentials_file

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """Yields a connection for reading, in a transaction that is never committed."""
        with self.errors_named():
            connection = self.connect()
            try:
                self._begin(connection)
                yield connection
            finally:
                # Closing a lost connection fails.
                with suppress(SQLAlchemyError):
                    connection.close()

    def connect(self) -> Connection:
        login, url = self._login(), self.url
        if url.username is None and login.user is not None:
            url = url.set(username=login.user)
        if login.password is not None:
            url = url.set(password=login.password)
        try:
            engine = sa.create_engine(
                url, poolclass=NullPool, hide_parameters=True, connect_args=self._connect_args()
            )
            return engine.connect()
        except (TypeError, ValueError, ArgumentError, ImportError) as error:
            raise UsageError(
                f"{self.shown}: its driver is not there or refuses the address "
                f"({self._text(error)}); install it with pip, or correct the address"
            ) from error
        except SQLAlchemyError as error:
            raise TriesFailedError(f"{self.shown}: {self._text(error)}") from error

    def _login(self) -> Login:
        return read_login(self._credentials_file)

    def _connect_args(self) -> dict[str, Any]:
        return {}

    def _begin(self, connection: Connection) -> None:
        """Begins the transaction in which rows are read."""

    def checked(self, query: TextClause, connection: Connection) -> Executable:
        """Returns a statement for a query's rows.

        Raises an error if the query is not a single SELECT.
        """
        # A subquery cannot change data or have several statements: the database refuses both.
        connection.execute(as_subquery(query).where(sa.literal_column("1 = 0"))).close()
        return query  # unchanged, so that its ORDER BY has an effect

    def stream(self, statement: Executable, connection: Connection, rows: int) -> CursorResult:
        """Runs a statement; the client holds at most `rows` rows."""
        options = {"stream_results": True, "max_row_buffer": rows}
        return connection.execute(statement, execution_options=options)

    def features(self, description: Sequence[Any], connection: Connection) -> list[Feature] | None:
        """Returns the types of the columns of a cursor; None if they must be inferred."""
        del description, connection
        return None

    def state(self) -> str | None:
        """Returns a digest of the data if it is known without reading rows, otherwise None."""
        return None

    @contextmanager
    def errors_named(self) -> Iterator[None]:
        """Turns database errors into DataError, or TriesFailedError if the connection is lost."""
        try:
            yield
        except SQLAlchemyError as error:
            if isinstance(error, DBAPIError) and error.connection_invalidated:
                raise TriesFailedError(
                    f"{self.shown}: connection lost ({self._text(error)}); start again when the "
                    "server answers"
                ) from error
            raise DataError(f"{self.shown}: {self._text(error)}") from error

    def _text(self, error: Exception) -> str:
        """Returns the driver's message as one line, without statement, values or password."""
        own = getattr(error, "orig", None) or error
        line = next(iter(str(own).strip().splitlines()), type(own).__name__)
        password = self._login().password
        return (line.replace(password, "***") if password else line)[:300]


class SqliteDatabase(Database):
    """SQLite: a database file, opened read-only."""

    def __init__(self, url: URL, credentials_file: str | None) -> None:
        if not url.database or url.database == ":memory:" or url.database.startswith("file:"):
            raise UsageError(
                f"{url}: expected a path: sqlite:///trips.db, sqlite:////data/trips.db"
            )
        self.path = url.database
        look(self.path)  # Its errors are clearer than SQLite's.
        options = {**url.query, "mode": "ro", "uri": "true"}
        name = "file:" + quote(os.path.abspath(self.path))
        super().__init__(url.set(database=name, query=options), credentials_file)
        self.shown = self.path

    def _login(self) -> Login:
        return Login()

    def _begin(self, connection: Connection) -> None:
        connection.exec_driver_sql("BEGIN")

    def stream(self, statement: Executable, connection: Connection, rows: int) -> CursorResult:
        # Texts are fetched as bytes, because decoding and encoding them would take 1.5 us per row
        # of eight texts.
        driver: Any = connection.connection.driver_connection
        driver.text_factory = bytes
        return super().stream(statement, connection, rows)

    def state(self) -> str:
        """Returns a digest of the file, with all its tables, and of its write-ahead log."""
        digest = hashlib.sha256()
        for path in filter(os.path.exists, (self.path, self.path + "-wal")):
            digest.update(hash_file(path).digest)
        return digest.hexdigest()


def bound_query(query: str, params: Mapping[str, str]) -> TextClause:
    # The line end prevents a comment at the end of the query from hiding the SQL that follows.
    clause = sa.text(_END.sub("", query) + "\n")
    wanted = set(clause._bindparams)
    if missing := sorted(wanted - set(params)):
        raise UsageError(
            f"query has the parameter :{missing[0]} without a value; give it one (--param "
            f"{missing[0]}=...), or write \\:{missing[0]} where no parameter is meant"
        )
    if unknown := sorted(set(params) - wanted):
        raise UsageError(f"params names {unknown[0]!r}; the query has no :{unknown[0]}")
    # Parameters have no type, so that the database converts each text to the type of the column or
    # value with which the query compares it.
    binds = [sa.bindparam(name, value, type_=NullType()) for name, value in params.items()]
    return clause.bindparams(*binds)


def whole_table(name: str, connection: Connection) -> Executable:
    """Returns a statement for a table's rows, in the order of its primary key if it has one."""
    schema, _, bare = name.rpartition(".")
    rows: Select = sa.select(sa.literal_column("*")).select_from(
        sa.table(bare, schema=schema or None)
    )
    try:
        found = sa.inspect(connection).get_pk_constraint(bare, schema=schema or None)
    except NoSuchTableError:  # The query will raise an error with the database's message.
        return rows
    return rows.order_by(*map(sa.column, found.get("constrained_columns") or ()))


def as_subquery(query: TextClause) -> Select:
    """Returns a statement that selects a query's rows.

    The database refuses the statement if the query is not a single SELECT.
    """
    return sa.select(sa.literal_column("*")).select_from(query.columns().subquery("penstock_rows"))
