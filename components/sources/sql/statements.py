"""SQL statements around a user's query, which is a subquery with bound values.

They count its rows, find boundaries of ranges of its key, and read a range in key order.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Text, bindparam, cast, column, func, literal_column, select, table, text
from sqlalchemy.sql.expression import ColumnElement, Select, TextClause
from sqlalchemy.types import NullType

from penstock.components.errors import UsageError

# Name of the user's query within our statements; none of its columns should have this name.
ROWS = "penstock_rows"
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


def table_query(name: str) -> str:
    schema, _, bare = name.rpartition(".")
    source = table(bare, schema=schema or None)
    return str(select(literal_column("*")).select_from(source))


def no_rows(query: TextClause) -> Select:
    """Returns a statement that selects no rows; it fails if the query is not one SELECT."""
    rows = query.columns().subquery(ROWS)
    return select(literal_column("*")).select_from(rows).where(literal_column("1 = 0"))


@dataclass(frozen=True)
class KeyRange:
    """Keys from `low` up to but not including `high`; None means unbounded."""

    low: Any = None
    high: Any = None


class Statements:
    """Statements over the rows of one bound query.

    `key_as_text` fetches the key as text, to keep it exact.
    """

    def __init__(
        self, query: TextClause, names: Sequence[str], key: str, *, key_as_text: bool = False
    ) -> None:
        self.rows = query.columns(*map(column, names)).subquery(ROWS)
        self._key = self.rows.c[key]
        self._key_as_text = key_as_text

    def counts(self, *more: ColumnElement) -> Select:
        """Selects the numbers of rows and of rows with a key, and further aggregates."""
        return select(func.count(), func.count(self._key), *more).select_from(self.rows)

    def boundaries(self, step: int) -> Select:
        """Selects every `step`th key, ascending, with the number of rows with smaller keys."""
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
        """Selects key and columns of a range in key order; or of rows without a key, for None."""
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
