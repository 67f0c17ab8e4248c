"""BigQuery as a database: one query is billed, and its result gives the types of the columns."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from sqlalchemy.engine import Connection
from sqlalchemy.sql.expression import Executable, TextClause

from penstock.components.errors import DataError, TriesFailedError, UsageError, short_error
from penstock.components.sources.sql.address import Login
from penstock.components.sources.sql.database import Database, Feature
from penstock.components.sources.sql.statements import as_subquery
from penstock.components.tfrecord.feature_kind import FeatureKind

try:
    import sqlalchemy_bigquery  # noqa: F401 - the dialect
    from google.api_core.exceptions import GoogleAPIError
    from google.auth.exceptions import GoogleAuthError
except ModuleNotFoundError as error:
    raise UsageError("BigQuery needs its dialect: pip install 'penstock-tfx[bigquery]'") from error

_KINDS = {
    FeatureKind.INT: (
        "INTEGER", "INT64", "BOOLEAN", "BOOL", "DATE", "TIME", "DATETIME", "TIMESTAMP",
    ),
    FeatureKind.FLOAT: ("FLOAT", "FLOAT64", "NUMERIC", "BIGNUMERIC"),
    FeatureKind.BYTES: ("STRING", "BYTES"),
}  # fmt: skip
_KIND_OF = {name: kind for kind, names in _KINDS.items() for name in names}


class BigQueryDatabase(Database):
    """A BigQuery data set; the login is that of Google's clients."""

    def connect(self) -> Connection:
        with self._google_errors_named():
            return super().connect()

    def _login(self) -> Login:
        return Login(None, None)

    def checked(self, query: TextClause, connection: Connection) -> Executable:
        del connection
        return as_subquery(query)  # A check of its own would be billed, too.

    def features(self, description: Sequence[Any], connection: Connection) -> list[Feature]:
        """Returns the types of the columns from the query's result; arrays are rejected."""
        del connection
        return [self._feature(one) for one in description]

    def _feature(self, column: Any) -> Feature:
        kind = _KIND_OF.get(column.type_code)
        if kind is None:
            raise DataError(
                f"{self.shown}: column {column.name!r} has type {column.type_code}, which no "
                "feature can hold; select its fields, or TO_JSON_STRING of it, in a query"
            )
        return kind, False

    @contextmanager
    def errors_named(self) -> Iterator[None]:
        with self._google_errors_named(), super().errors_named():
            yield

    @contextmanager
    def _google_errors_named(self) -> Iterator[None]:
        try:
            yield
        except GoogleAuthError as error:
            raise DataError(
                f"{self.shown}: no login ({short_error(error)}); set "
                "GOOGLE_APPLICATION_CREDENTIALS, or run gcloud auth application-default login"
            ) from error
        except GoogleAPIError as error:
            raise TriesFailedError(f"{self.shown}: {short_error(error)}") from error
