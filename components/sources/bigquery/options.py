"""BigQuery's options and types; `source` reads it through Beam."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from penstock.components.errors import UsageError
from penstock.components.sources.base import Column
from penstock.components.sources.option_checks import check_fields
from penstock.components.tfrecord.feature_kind import FeatureKind

SCHEME = "bigquery"

# https://cloud.google.com/bigquery/docs/reference/rest/v2/tables#TableFieldSchema.FIELDS.type
_KINDS = {
    FeatureKind.INT: (
        "INTEGER", "INT64", "BOOLEAN", "BOOL", "DATE", "TIME", "DATETIME", "TIMESTAMP",
    ),
    FeatureKind.FLOAT: ("FLOAT", "FLOAT64", "NUMERIC", "BIGNUMERIC"),
    FeatureKind.BYTES: ("STRING", "BYTES", "JSON", "GEOGRAPHY"),
}  # fmt: skip
_KIND_OF = {name: kind for kind, names in _KINDS.items() for name in names}
# Whichever begins first: a quote within a comment begins no text, nor `--` within a text a comment.
_COMMENT_OR_TEXT = re.compile(
    r"(?P<comment>--[^\n]*|#[^\n]*|/\*.*?\*/)"
    r"|'''.*?'''|\"\"\".*?\"\"\"|'(?:\\.|[^'\\])*'|\"(?:\\.|[^\"\\])*\"|`(?:\\.|[^`\\])*`",
    re.DOTALL,
)


@dataclass(frozen=True)
class BigQueryOptions:
    """The rows of a query, read with the credentials that Google's own clients find.

    Attributes:
        kind: `bigquery`.
        query: A SELECT in GoogleSQL.
        gcs_location: `gs://` folder for an export of the result; without one Beam reads it by the
            Storage Read API.
        non_finite: NaN and infinity: `reject` the row, read as `null`, or `keep`.
        allow_empty: Whether no rows are fine instead of an error.

    Raises:
        UsageError: A value is not one of the choices, or the query is no single SELECT.
    """

    kind: str = "bigquery"
    query: str | None = None
    gcs_location: str | None = None
    non_finite: str = "reject"
    allow_empty: bool = False

    def __post_init__(self) -> None:
        check_fields(self)
        if self.gcs_location is not None and not self.gcs_location.startswith("gs://"):
            raise UsageError(f"`gcs_location` must begin with gs://, got {self.gcs_location!r}")
        if self.query is not None:
            check_query(self.query)

    def with_query(self, query: str) -> "BigQueryOptions":
        """The same for another query, as an input split of a pipeline names one."""
        return replace(self, query=query)


def check_query(query: str) -> None:
    """Refuse what is not one statement that only reads.

    BigQuery itself checks the rest; this keeps a script or a DELETE from being sent at all.

    Raises:
        UsageError: It is empty, several statements, or does not begin with SELECT or WITH.
    """
    bare = _COMMENT_OR_TEXT.sub(lambda found: " " if found["comment"] else "''", query)
    bare = bare.strip().rstrip(";")
    if ";" in bare:
        raise UsageError("query must be one statement, without a ';' within")
    if not re.match(r"\(*\s*(SELECT|WITH|FROM)\b", bare, re.IGNORECASE):
        raise UsageError(f"query must begin with SELECT or WITH, got {query.strip()[:60]!r}")


def parse_project(address: str) -> str:
    """The project of `bigquery://project`; UsageError if it is no such address."""
    scheme, separator, project = address.partition("://")
    if scheme != SCHEME or not separator or not re.fullmatch(r"[a-z][a-z0-9:.-]{4,}", project):
        raise UsageError(f"{address[:80]}: expected bigquery://PROJECT, who pays for the query")
    return project


def bigquery_columns(fields: Sequence[tuple[str, str, str]]) -> tuple[Column, ...]:
    """The features of a query's result, whose fields are a name, a type and a mode each.

    Raises:
        UsageError: No feature holds a field; names it.
    """
    columns = []
    for name, type_name, mode in fields:
        kind = _KIND_OF.get(type_name.upper())
        if kind is None:
            raise UsageError(
                f"column {name!r} has BigQuery's type {type_name}, which no feature can hold; "
                "select its fields, or TO_JSON_STRING of it"
            )
        is_text = type_name.upper() != "BYTES"
        columns.append(Column(name, kind, mode.upper() == "REPEATED", is_text))
    return tuple(columns)
