"""Plan of a query: columns, key, row counts, boundaries and digest, known before work starts.

All of it is read over one connection, which sees one state of the data.
"""

import hashlib
import json
from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import inspect
from sqlalchemy.engine import Connection
from sqlalchemy.exc import NoSuchTableError
from sqlalchemy.sql.expression import Select, TextClause

from penstock.components.errors import DataError, TriesFailedError, UsageError
from penstock.components.sources.base import NUMBERS, Column
from penstock.components.sources.python_values import ValueSample
from penstock.components.sources.schema import SchemaColumn, check_schema_names, read_schema, shown
from penstock.components.sources.sql.database import Database, Feature, fetch, stream
from penstock.components.sources.sql.options import Sql
from penstock.components.sources.sql.statements import (
    KeyRange,
    Statements,
    bound_query,
    no_rows,
    table_query,
)
from penstock.components.tfrecord.feature_kind import FeatureKind

# Maximum number of range boundaries: more than an ingest has shards; each costs a few bytes.
_MAX_BOUNDARIES = 4096
# Number of places from which rows are sampled if the database does not state types.
_SAMPLED_PLACES = 8
_FETCH_ROWS = 256


@dataclass(frozen=True)
class SqlPlan:
    key: str
    key_as_text: bool  # Whether keys are fetched as text; see `Statements`.
    names: tuple[str, ...]
    columns: tuple[Column, ...]
    rows: int
    keyed_rows: int  # Number of rows whose key is not NULL; these rows come first.
    boundaries: dict[int, Any]  # Keys at which ranges may begin, by the number of rows before.
    fingerprint: str  # Digest (hex) of the content.

    def boundary_at(self, row: int) -> int:
        """Returns the first row of a range, at or after `row`; rows without key form one range."""
        rows = list(self.boundaries)
        at = bisect_left(rows, row)
        if at < len(rows):
            return rows[at]
        return self.keyed_rows if row <= self.keyed_rows else self.rows

    def keys_of(self, start: int, end: int) -> KeyRange:
        return KeyRange(self.boundaries[start] if start else None, self.boundaries.get(end))


def user_query(database: Database, options: Sql) -> TextClause:
    """Returns the statement that selects the rows; UsageError if its parameters do not match."""
    if options.query is None and options.table is None:
        raise UsageError(f"{database.shown}: say what to read: a query or a table")
    query = options.query if options.query is not None else table_query(str(options.table))
    return bound_query(query, options.bound_params())


def make_plan(database: Database, options: Sql, connection: Connection) -> SqlPlan:
    query = user_query(database, options)
    try:
        with database.errors_named():
            names, features = _describe(database, query, connection)
    except TriesFailedError:
        raise
    except DataError as error:
        raise _with_tables(error, options, connection) from error
    key = _key(database, options, names, connection)
    as_text = features is not None and database.fetches_key_as_text(features[names.index(key)])
    statements = Statements(query, names, key, key_as_text=as_text)
    rows, keyed_rows, digest = database.counts_and_digest(statements, connection)
    if not rows and not options.allow_empty:
        raise DataError(
            f"{database.shown}: the {_what(options)} gives no rows; "
            "set `allow_empty` if that is fine"
        )
    boundaries = _boundaries(statements, keyed_rows, connection) if keyed_rows else {}
    if features is None:
        lows = list(boundaries.values())[:: max(1, len(boundaries) // _SAMPLED_PLACES)]
        ranges: list[KeyRange | None] = [KeyRange(low) for low in lows] or [None]
        selects = [statements.read(names, keys) for keys in ranges]
        features = _sampled(connection, selects, names, options.sample_rows)
    found = dict(zip(names, features, strict=True))
    return SqlPlan(
        key=key,
        key_as_text=as_text,
        names=names,
        columns=_columns(database.shown, found, options),
        rows=rows,
        keyed_rows=keyed_rows,
        boundaries=boundaries,
        fingerprint=_fingerprint(options, names, rows, digest),
    )


def _sampled(
    connection: Connection, selects: Sequence[Select], names: Sequence[str], sample_rows: int
) -> list[Feature]:
    sample = ValueSample()
    share = -(-sample_rows // len(selects))
    for select in selects:
        for rows in fetch(connection, select.limit(share), _FETCH_ROWS):
            for _, *values in rows:
                sample.add(dict(zip(names, values, strict=True)), "")
    return [sample.feature(name) for name in names]


def _what(options: Sql) -> str:
    return "query" if options.query is not None else f"table {options.table!r}"


def _describe(
    database: Database, query: TextClause, connection: Connection
) -> tuple[tuple[str, ...], list[Feature] | None]:
    """Returns the names of the columns and, if the database states them, their types."""
    # As a subquery, a statement that changes data fails, and so do several statements.
    empty = no_rows(query)
    connection.execute(empty).close()
    with stream(connection, empty if database.runs_whole_queries else query, 1) as result:
        description = result.cursor.description if result.cursor is not None else None
    if not description:
        raise UsageError(f"{database.shown}: the query gives no columns; expected a SELECT")
    names = tuple(str(one[0]) for one in description)
    names_seen = Counter(name if database.tells_case else name.lower() for name in names)
    twice = [name for name, count in names_seen.items() if count > 1]
    if twice or not all(name.strip() for name in names):
        what = f"duplicate column {shown(twice)}" if twice else "a column without a name"
        if twice and len(set(names)) == len(names):
            alike = [name for name in names if name.lower() in twice]
            what = f"columns that differ in case only ({shown(alike)})"
        raise DataError(f"{database.shown}: {what}; give each a name of its own (AS) in the query")
    return names, database.features(description, connection)


def _key(database: Database, options: Sql, names: Sequence[str], connection: Connection) -> str:
    key = options.key
    if key is None and options.table is not None:
        key = _primary_key(options.table, connection)
    if key is None:
        raise UsageError(
            f"{database.shown}: the {_what(options)} needs a key: a column, best unique, whose "
            f"ranges the workers read; it has {shown(names)}"
        )
    if key not in names:
        raise UsageError(f"{database.shown}: no column {key!r} for the key; it has {shown(names)}")
    return key


def _with_tables(error: DataError, options: Sql, connection: Connection) -> DataError:
    table = options.table
    if table is None or "." in table:
        return error
    try:
        connection.rollback()  # PostgreSQL refuses further statements after an error.
        inspector = inspect(connection)
        there = sorted([*inspector.get_table_names(), *inspector.get_view_names()])
    except (
        Exception
    ):  # Only advice is lost: a login may be able to read a table, but not to list others.
        return error
    if table in there:
        return error
    return DataError(f"{error}; its tables: {shown(there) if there else 'none'}")


def _primary_key(table: str, connection: Connection) -> str | None:
    schema, _, bare = table.rpartition(".")
    try:
        found = inspect(connection).get_pk_constraint(bare, schema=schema or None)
    except NoSuchTableError:
        return None
    return next(iter(found.get("constrained_columns") or ()), None)


def _boundaries(statements: Statements, keyed_rows: int, connection: Connection) -> dict[int, Any]:
    step = -(-keyed_rows // _MAX_BOUNDARIES)
    return {row: key for key, row in connection.execute(statements.boundaries(step))}


def _columns(place: str, found: dict[str, Feature], options: Sql) -> tuple[Column, ...]:
    schema = read_schema(options.schema_file)
    if not schema:
        return tuple(
            Column(name, kind or FeatureKind.BYTES, is_list)
            for name, (kind, is_list) in found.items()
        )
    check_schema_names(place, tuple(found), schema, options.extra_columns)
    return tuple(_schema_column(place, one, found, options) for one in schema)


def _schema_column(
    place: str, wanted: SchemaColumn, found: dict[str, Feature], options: Sql
) -> Column:
    kind, is_list = found.get(wanted.name, (None, bool(wanted.is_list)))
    column = Column(wanted.name, wanted.kind, is_list if wanted.is_list is None else wanted.is_list)
    same_kind = kind is column.kind or (kind in NUMBERS and column.kind in NUMBERS)
    if kind is not None and not (same_kind and is_list == column.is_list):
        raise DataError(
            f"{place}: column {wanted.name!r} holds {Column('', kind, is_list).holds}, expected "
            f"{column.holds} as the schema {options.schema_file} has it; cast it in the query, or "
            "change the schema"
        )
    return column


def _fingerprint(options: Sql, names: Sequence[str], rows: int, digest: bytes) -> str:
    """Digests content and query, since the content's digest may cover rows outside the query."""
    picked = [options.query, options.table, sorted(options.bound_params().items())]
    head = json.dumps([picked, list(names), rows])
    return hashlib.sha256(b"sql\0" + head.encode() + b"\0" + digest).hexdigest()
