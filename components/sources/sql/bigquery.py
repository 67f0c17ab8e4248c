"""Reads BigQuery with a single billed query, whose result also gives the types of the columns."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from sqlalchemy.engine import Connection
from sqlalchemy.sql.expression import Executable, TextClause

from penstock.components.errors import DataError, TriesFailedError, UsageError, short_error
from penstock.components.sources.sql.database import Database, Feature, Login, as_subquery
from penstock.components.tfrecord.feature_kind import FeatureKind

try:
    import sqlalchemy_bigquery  # noqa: F401 - the dialect
    from google.api_core.exceptions import GoogleAPIError
    from google.auth.exceptions import GoogleAuthError
except ModuleNotFoundError as error:
    raise UsageError("BigQuery needs its dialect: pip install 'penstock-tfx[bigquery]'") from error

_KIND_OF = {
    **dict.fromkeys(("INTEGER", "INT64", "BOOLEAN", "BOOL"), FeatureKind.INT),
    **dict.fromkeys(("DATE", "TIME", "DATETIME", "TIMESTAMP"), FeatureKind.INT),
    **dict.fromkeys(("FLOAT", "FLOAT64", "NUMERIC", "BIGNUMERIC"), FeatureKind.FLOAT),
    **dict.fromkeys(("STRING", "BYTES"), FeatureKind.BYTES),
}


class BigQueryDatabase(Database):
    """A BigQuery data set; Google's clients supply the login."""

    def _login(self) -> Login:
        return Login()

    def checked(self, query: TextClause, connection: Connection) -> Executable:
        del connection
        return as_subquery(query)  # A query that only checks would be billed, too.

    def features(self, description: Sequence[Any], connection: Connection) -> list[Feature]:
        """Returns the types of a query's columns.

        Raises DataError for a type that no feature can hold.
        """
        del connection
        for one in description:
            if one.type_code not in _KIND_OF:
                raise DataError(
                    f"{self.shown}: column {one.name!r} has type {one.type_code}, which no feature "
                    "can hold; select its fields, or TO_JSON_STRING of it, in a query"
                )
        return [(_KIND_OF[one.type_code], False) for one in description]

    @contextmanager
    def errors_named(self) -> Iterator[None]:
        try:
            with super().errors_named():
                yield
        except GoogleAuthError as error:
            raise DataError(
                f"{self.shown}: no login ({short_error(error)}); set "
                "GOOGLE_APPLICATION_CREDENTIALS, or run gcloud auth application-default login"
            ) from error
        except GoogleAPIError as error:
            raise TriesFailedError(f"{self.shown}: {short_error(error)}") from error
