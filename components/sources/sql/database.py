"""A database that SQLAlchemy reaches: a read-only connection, errors as one line, streamed rows.

Subclasses such as `sqlite.py` and `postgresql.py` add what the base lacks: the state of the data
without reading it, and types of columns.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from sqlalchemy import create_engine, literal_column
from sqlalchemy.engine import URL, Connection, CursorResult
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError, SQLAlchemyError
from sqlalchemy.pool import NullPool
from sqlalchemy.sql.expression import Executable, TextClause

from penstock.components.errors import DataError, PenstockError, TriesFailedError, UsageError
from penstock.components.sources.sql.address import Login, read_login, shown_address
from penstock.components.sources.sql.statements import as_subquery
from penstock.components.tfrecord.feature_kind import FeatureKind

Feature = tuple[FeatureKind | None, bool]
"""Kind of a column (None if unknown), and whether it holds lists."""


class Database:
    # Whether two columns may have names that differ only in case; most databases refuse that.
    tells_case = False

    def __init__(self, url: URL, credentials_file: str | None) -> None:
        self.url = url
        self.shown = shown_address(url)
        self._credentials_file = credentials_file

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """Yields a read-only connection in a transaction, which is never committed."""
        connection = self.connect()
        try:
            with self.errors_named():
                self._begin(connection)
                yield connection
        finally:
            # To close a lost connection fails.
            with suppress(SQLAlchemyError):
                connection.close()

    def connect(self) -> Connection:
        try:
            return self._create_connection()
        except PenstockError:
            raise
        except (TypeError, ValueError, ArgumentError) as error:
            raise UsageError(
                f"{self.shown}: its driver refuses what the address says after '?' "
                f"({self._text(error)})"
            ) from error
        except NoSuchModuleError as error:
            raise UsageError(f"{self.shown}: SQLAlchemy knows no such kind of database") from error
        except ModuleNotFoundError as error:
            raise UsageError(
                f"{self.shown}: needs the driver {error.name!r}: pip install {error.name}"
            ) from error
        except SQLAlchemyError as error:
            raise TriesFailedError(f"{self.shown}: {self._text(error)}") from error

    def _create_connection(self) -> Connection:
        login, url = self._login(), self.url
        if url.username is None and login.user is not None:
            url = url.set(username=login.user)
        if login.password is not None:
            url = url.set(password=login.password)
        engine = create_engine(
            url, poolclass=NullPool, hide_parameters=True, connect_args=self._connect_args()
        )
        return engine.connect()

    def _login(self) -> Login:
        return read_login(self._credentials_file)

    def _connect_args(self) -> dict[str, Any]:
        return {}

    def _begin(self, connection: Connection) -> None:
        """Begins the transaction in which rows are read."""

    def checked(self, query: TextClause, connection: Connection) -> Executable:
        """Returns a statement of a query's rows; an error if the query is not one SELECT."""
        # As a subquery, a statement that changes data fails, and so do several statements.
        connection.execute(as_subquery(query).where(literal_column("1 = 0"))).close()
        return query  # As it is, so that its order counts.

    def stream(self, statement: Executable, connection: Connection, rows: int) -> CursorResult:
        """Runs a statement; the client holds at most `rows` rows."""
        options = {"stream_results": True, "max_row_buffer": rows}
        return connection.execute(statement, execution_options=options)

    def features(self, description: Sequence[Any], connection: Connection) -> list[Feature] | None:
        """Returns the types of the columns that a cursor describes; None to infer them."""
        del description, connection
        return None

    def state(self) -> str | None:
        """Returns a digest of the data that is known without reading rows, if there is one."""
        return None

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
