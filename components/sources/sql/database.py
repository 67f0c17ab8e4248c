"""A database that SQLAlchemy reaches: connections, errors as one line, streamed results.

Subclasses such as `sqlite.py` and `postgresql.py` add what the base lacks: a mark of the data's
state that all workers see, column types, and a digest that needs no further reading.
"""

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from sqlalchemy import create_engine, select
from sqlalchemy.engine import URL, Connection, CursorResult, Engine
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError, SQLAlchemyError
from sqlalchemy.pool import NullPool
from sqlalchemy.sql.expression import Executable

from penstock.components.errors import DataError, PenstockError, TriesFailedError, UsageError
from penstock.components.sources.sql.address import Login, read_login, shown_address
from penstock.components.sources.sql.statements import Statements
from penstock.components.tfrecord.feature_kind import FeatureKind

Feature = tuple[FeatureKind | None, bool]
"""Kind of a column (None if unknown), and whether it holds lists."""

_DIGEST_ROWS = 1024


class Database:
    """A database; pickled without connections and password."""

    # Whether the state that `mark` names ends with the connection that named it.
    mark_needs_connection = False
    # Whether the database computes (and bills) all rows of a statement before the first is fetched.
    runs_whole_queries = False
    # Whether two columns may have names that differ only in case; most databases refuse that.
    tells_case = False

    def __init__(self, url: URL, credentials_file: str | None) -> None:
        self.url = url
        self.shown = shown_address(url)
        self._credentials_file = credentials_file
        self._engine: Engine | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_engine": None}

    @property
    def input_bytes(self) -> int:
        """Size in bytes if known, otherwise 0."""
        return 0

    @contextmanager
    def reading(self, mark: str | None) -> Iterator[Connection]:
        """Yields a read-only connection that sees the data in the state `mark`, if given."""
        connection = self.connect()
        try:
            self._begin(connection, mark)
            yield connection
        finally:
            # To close a lost connection fails.
            with suppress(SQLAlchemyError):
                connection.close()

    def connect(self) -> Connection:
        try:
            if self._engine is None:
                self._engine = self._create_engine()
            return self._engine.connect()
        except PenstockError:
            raise
        except (TypeError, ValueError, ArgumentError) as error:
            raise UsageError(
                f"{self.shown}: its driver refuses what the address says after '?' "
                f"({self._text(error)})"
            ) from error
        except SQLAlchemyError as error:
            raise TriesFailedError(f"{self.shown}: {self._text(error)}") from error

    def _create_engine(self) -> Engine:
        login = self._login()
        url = self.url
        if url.username is None and login.user is not None:
            url = url.set(username=login.user)
        if login.password is not None:
            url = url.set(password=login.password)
        try:
            return create_engine(
                url, poolclass=NullPool, hide_parameters=True, connect_args=self._connect_args()
            )
        except NoSuchModuleError as error:
            raise UsageError(f"{self.shown}: SQLAlchemy knows no such kind of database") from error
        except ModuleNotFoundError as error:
            raise UsageError(
                f"{self.shown}: needs the driver {error.name!r}: pip install {error.name}"
            ) from error

    def _login(self) -> Login:
        return read_login(self._credentials_file)

    def _connect_args(self) -> dict[str, Any]:
        return {}

    def _begin(self, connection: Connection, mark: str | None) -> None:
        """Begins the transaction in which rows are read."""

    def mark(self, connection: Connection) -> str | None:
        """Returns a name by which other connections can see the state of `connection`, or None."""
        del connection
        return None

    def features(self, description: Sequence[Any], connection: Connection) -> list[Feature] | None:
        """Returns the types of the columns that a cursor describes; None to infer them."""
        del description, connection
        return None

    def fetches_key_as_text(self, feature: Feature) -> bool:
        """Returns whether keys of this type must be fetched as text to be exact."""
        del feature
        return False

    def counts_and_digest(
        self, statements: Statements, connection: Connection
    ) -> tuple[int, int, bytes]:
        """Reads all rows; returns their number, the number with a key, and an unordered digest."""
        total = 0
        for rows in fetch(connection, select(statements.rows), _DIGEST_ROWS):
            for row in rows:
                hashed = hashlib.blake2b(
                    repr(tuple(row)).encode("utf-8", "replace"), digest_size=16
                )
                total += int.from_bytes(hashed.digest(), "big")
        count, keys = self.counts(statements, connection)
        return count, keys, (total % 2**128).to_bytes(16, "big")

    def counts(self, statements: Statements, connection: Connection) -> tuple[int, int]:
        count, keys = connection.execute(statements.counts()).one()
        return count, keys

    @contextmanager
    def errors_named(self) -> Iterator[None]:
        """Turns database errors into one line; `TriesFailedError` if the connection is lost."""
        try:
            yield
        except DBAPIError as error:
            if error.connection_invalidated:
                raise TriesFailedError(
                    f"{self.shown}: connection lost ({self._text(error)}); start again when the "
                    "server answers"
                ) from error
            raise DataError(f"{self.shown}: {self._text(error)}") from error
        except SQLAlchemyError as error:
            raise DataError(f"{self.shown}: {self._text(error)}") from error

    def _text(self, error: Exception) -> str:
        """Returns the driver's message as one line, without statement, values and login."""
        own = getattr(error, "orig", None) or error
        line = next(iter(str(own).strip().splitlines()), type(own).__name__)
        return self._login().hide(line)[:300]


def fetch(connection: Connection, statement: Executable, rows: int) -> Iterator[Sequence[Any]]:
    """Yields the rows of a statement, `rows` at a time; the server keeps the others."""
    with stream(connection, statement, rows) as result:
        while some := result.fetchmany(rows):
            yield some


def stream(connection: Connection, statement: Executable, rows: int) -> CursorResult:
    """Returns the result of a statement; the client holds at most `rows` rows."""
    options = {"stream_results": True, "max_row_buffer": rows}
    return connection.execute(statement, execution_options=options)
