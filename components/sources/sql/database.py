"""A database of any make: how to connect, what one line its errors are, how to read from it.

`sqlite.py` and `postgresql.py` know more of theirs: a state of the data that all workers see,
the columns' types, and a digest of the content that costs no further reading.
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
"""Kind (None where it is not known) and whether a list."""

_DIGEST_ROWS = 1024


class Database:
    """A database; pickled without its connections, and at no time with a password."""

    # Whether what `mark` names lasts only as long as the connection that it was asked on.
    mark_needs_connection = False
    # Whether columns that differ in case only are two to it; quoted or not, to most they are one.
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
        """Its size where that is known, else 0."""
        return 0

    @contextmanager
    def reading(self, mark: str | None) -> Iterator[Connection]:
        """A connection that only reads, in the state of the data that `mark` names if it is given.

        Raises:
            DataError: The data are in another state.
            TriesFailedError: There is no connection.
        """
        connection = self.connect()
        try:
            self._begin(connection, mark)
            yield connection
        finally:
            # A connection that is lost cannot be given back in order.
            with suppress(SQLAlchemyError):
                connection.close()

    def connect(self) -> Connection:
        """A connection."""
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
        """Who connects."""
        return read_login(self._credentials_file)

    def _connect_args(self) -> dict[str, Any]:
        """What the driver is to be told."""
        return {}

    def _begin(self, connection: Connection, mark: str | None) -> None:
        """Begin to read."""

    def mark(self, connection: Connection) -> str | None:
        """Names the state of the data that `connection` sees, for others; None if it cannot."""
        del connection
        return None

    def features(self, description: Sequence[Any], connection: Connection) -> list[Feature] | None:
        """What the columns of a cursor's description hold; None where a sample must tell.

        Raises:
            DataError: No feature holds a column; names it.
        """
        del description, connection
        return None

    def fetches_key_as_text(self, feature: Feature) -> bool:
        """Whether keys that such a feature holds lose unless they are fetched as text."""
        del feature
        return False

    def counts_and_digest(
        self, statements: Statements, connection: Connection
    ) -> tuple[int, int, bytes]:
        """Number of rows, number of those with a key, and a digest of their content in any order.

        Here every row is read for it.
        """
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
        """Number of rows, and of those with a key."""
        count, keys = connection.execute(statements.counts()).one()
        return count, keys

    @contextmanager
    def errors_named(self) -> Iterator[None]:
        """The database's errors as a line each; `TriesFailedError` where the connection is lost."""
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
        """One line of the driver's own words, without the statement, its values and the login."""
        own = getattr(error, "orig", None) or error
        line = next(iter(str(own).strip().splitlines()), type(own).__name__)
        return self._login().hide(line)[:300]


def fetch(connection: Connection, statement: Executable, rows: int) -> Iterator[Sequence[Any]]:
    """The rows of a statement, so many at a time; the server keeps the others."""
    with stream(connection, statement, rows) as result:
        while some := result.fetchmany(rows):
            yield some


def stream(connection: Connection, statement: Executable, rows: int) -> CursorResult:
    """The result of a statement, of which the client holds `rows` rows at most."""
    options = {"stream_results": True, "max_row_buffer": rows}
    return connection.execute(statement, execution_options=options)
