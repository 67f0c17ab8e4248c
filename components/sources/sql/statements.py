"""The statement of a user's query or table, with bound values."""

import re
from collections.abc import Mapping

from sqlalchemy import bindparam, column, inspect, literal_column, select, table, text
from sqlalchemy.engine import Connection
from sqlalchemy.exc import NoSuchTableError
from sqlalchemy.sql.expression import Executable, Select, TextClause
from sqlalchemy.types import NullType

from penstock.components.errors import UsageError

# Semicolons and comments at the end of a query. If a quote follows, they may be part of a text; the
# database then judges them.
_END = re.compile(r"""(?:;(?:\s|--[^\n'"`$]*(?:\n|\Z)|/\*[^'"`$*]*\*/)*)*\s*\Z""")


def bound_query(query: str, params: Mapping[str, str]) -> TextClause:
    # The line end keeps a comment at the end of the query from swallowing our SQL after it.
    clause = text(_END.sub("", query) + "\n")
    wanted = set(clause._bindparams)
    if missing := sorted(wanted - set(params)):
        raise UsageError(
            f"query has the parameter :{missing[0]} without a value; give it one (--param "
            f"{missing[0]}=...), or write \\:{missing[0]} where no parameter is meant"
        )
    if unknown := sorted(set(params) - wanted):
        raise UsageError(f"params names {unknown[0]!r}; the query has no :{unknown[0]}")
    # Without a type, the database converts the text to the type that it is compared with.
    binds = [bindparam(name, value, type_=NullType()) for name, value in params.items()]
    return clause.bindparams(*binds)


def whole_table(name: str, connection: Connection) -> Executable:
    """Returns a statement of a table's rows, in the order of its primary key if it has one."""
    schema, _, bare = name.rpartition(".")
    source = table(bare, schema=schema or None)
    rows: Select = select(literal_column("*")).select_from(source)
    try:
        found = inspect(connection).get_pk_constraint(bare, schema=schema or None)
    except NoSuchTableError:  # Its own error has the database's words.
        return rows
    return rows.order_by(*map(column, found.get("constrained_columns") or ()))


def as_subquery(query: TextClause) -> Select:
    """Returns a statement of a query's rows; it fails if the query is not one SELECT."""
    return select(literal_column("*")).select_from(query.columns().subquery("penstock_rows"))
