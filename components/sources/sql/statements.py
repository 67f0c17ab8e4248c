"""The statements that are sent: a user's query as a subquery, with values bound, never pasted.

Flows in: the text of a query and the values of its parameters. Flows out: SQLAlchemy statements
that count its rows, place the boundaries of ranges of its key, and read a range in key order.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Text, bindparam, cast, column, func, literal_column, select, table, text
from sqlalchemy.sql.expression import ColumnElement, Select, TextClause
from sqlalchemy.types import NullType

from penstock.components.errors import UsageError

# The name of the user's query within ours; no column of it should have it.
ROWS = "penstock_rows"
# Semicolons, and comments behind them. Where a quote follows, they may stand in a text, or the
# comment may: the database tells.
_END = re.compile(r"""(?:;(?:\s|--[^\n'"`$]*(?:\n|\Z)|/\*[^'"`$*]*\*/)*)*\s*\Z""")


def bound_query(query: str, params: Mapping[str, str]) -> TextClause:
    """A query with its parameters bound; UsageError if these are not the query's."""
    # A comment at the end of the query must not swallow what follows it.
    clause = text(_END.sub("", query) + "\n")
    wanted = set(clause._bindparams)
    if missing := sorted(wanted - set(params)):
        raise UsageError(
            f"query has the parameter :{missing[0]} without a value; give it one (--param "
            f"{missing[0]}=...), or write \\:{missing[0]} where no parameter is meant"
        )
    if unknown := sorted(set(params) - wanted):
        raise UsageError(f"params names {unknown[0]!r}; the query has no :{unknown[0]}")
    # Without a type the database decides what a text stands for where it is compared.
    binds = [bindparam(name, value, type_=NullType()) for name, value in params.items()]
    return clause.bindparams(*binds)


def table_query(name: str) -> str:
    """All rows of a table or view."""
    schema, _, bare = name.rpartition(".")
    source = table(bare, schema=schema or None)
    return str(select(literal_column("*")).select_from(source))


def no_rows(query: TextClause) -> Select:
    """None of a query's rows: what is no SELECT, or more than one statement, is an error."""
    rows = query.columns().subquery(ROWS)
    return select(literal_column("*")).select_from(rows).where(literal_column("1 = 0"))


@dataclass(frozen=True)
class KeyRange:
    """Rows by their keys.

    Attributes:
        low: The first key, or None for all from the beginning.
        high: The key before which it ends, or None for all to the end.
    """

    low: Any = None
    high: Any = None


class Statements:
    """Statements over the rows of one bound query.

    `key_as_text` fetches the key as text, because it loses as anything else.
    """

    def __init__(
        self, query: TextClause, names: Sequence[str], key: str, *, key_as_text: bool = False
    ) -> None:
        self.rows = query.columns(*map(column, names)).subquery(ROWS)
        self._key = self.rows.c[key]
        self._key_as_text = key_as_text

    def counts(self, *more: ColumnElement) -> Select:
        """Number of rows, number of those that have a key, and more aggregates."""
        return select(func.count(), func.count(self._key), *more).select_from(self.rows)

    def boundaries(self, step: int) -> Select:
        """Every `step`th key with the number of rows that have a smaller one, ascending."""
        ranked = (
            select(
                self._key.label("penstock_key"),
                func.rank().over(order_by=self._key).label("penstock_rank"),
                func.row_number().over(order_by=self._key).label("penstock_number"),
            )
            .where(self._key.is_not(None))
            .subquery("penstock_ranked")
        )
        number = ranked.c.penstock_number
        return (
            select(self._fetched(ranked.c.penstock_key), ranked.c.penstock_rank - 1)
            .where((number - 1) % step == 0)
            .order_by(number)
        )

    def read(self, names: Sequence[str], keys: KeyRange | None) -> Select:
        """The key and some columns of the rows of a range, by key; of those without key if None."""
        wanted = select(
            self._fetched(self._key).label("penstock_key"), *(self.rows.c[name] for name in names)
        ).select_from(self.rows)
        if keys is None:
            return wanted.where(self._key.is_(None))
        bounded = wanted.where(self._key.is_not(None))
        if keys.low is not None:
            bounded = bounded.where(self._key >= _value(keys.low))
        if keys.high is not None:
            bounded = bounded.where(self._key < _value(keys.high))
        return bounded.order_by(self._key)

    def _fetched(self, key: ColumnElement) -> ColumnElement:
        return cast(key, Text) if self._key_as_text else key


def _value(value: Any) -> ColumnElement:
    return bindparam(None, value, type_=NullType(), unique=True)
