"""Options for reading a database; none of them is secret."""

from dataclasses import dataclass, replace

from penstock.components.errors import UsageError
from penstock.components.sources.options import ColumnOptions


@dataclass(frozen=True)
class Sql(ColumnOptions):
    r"""Rows of a database, selected by a query or read from a table.

    User and password come from PENSTOCK_SQL_USER and PENSTOCK_SQL_PASSWORD or from
    `credentials_file` only.

    Attributes:
        query: A SELECT; `:name` is a parameter; write `\:` for a colon before a word. Its ORDER BY
            determines the order of the rows, except on BigQuery; without ORDER BY, shards may
            differ between runs.
        table: A table or view, optionally `schema.name`, that is read in the order of its primary
            key; give it instead of a query.
        params: Values of the query's parameters, each `name=value`. They are bound as text, never
            pasted into the statement; for a number write CAST(:name AS INTEGER) in the query.
        sample_rows: Maximum number of rows, from the start of the result, from which types are
            inferred if the database does not state them.
        credentials_file: Path of a file with the lines `user = ...` and `password = ...`.
    """

    kind: str = "sql"
    query: str | None = None
    table: str | None = None
    params: tuple[str, ...] = ()
    sample_rows: int = 10_000
    credentials_file: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.query is not None and self.table is not None:
            raise UsageError("`query` and `table` are both given; give one of them")
        if self.params and self.table is not None:
            raise UsageError("`params` need a query, but a table is given; give a `query` instead")
        self.bound_params()

    def bound_params(self) -> dict[str, str]:
        """Returns the parameters by name; raises UsageError for a nameless or repeated one."""
        bound: dict[str, str] = {}
        for param in self.params:
            name, equals, value = param.partition("=")
            if not equals or not name.isidentifier():
                # The value is not shown, since it may be confidential.
                raise UsageError("`params` must be name=value each, a name of letters and digits")
            if name in bound:
                raise UsageError(f"`params` name {name!r} twice; give it one value")
            bound[name] = value
        return bound

    def with_query(self, query: str) -> "Sql":
        return replace(self, query=query, table=None)
