"""Rows of a database as a `Source`: the result of one query, staged as Parquet.

The result is read once, in one transaction. If reading stops early, no staged rows remain.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import chain

import pyarrow as pa
from sqlalchemy.engine import Connection, CursorResult

from penstock.components.errors import DataError, UsageError
from penstock.components.files.content import Content
from penstock.components.files.find import Found, FoundFile
from penstock.components.files.output import Output
from penstock.components.sources.base import MAX_BATCH_BYTES, Column
from penstock.components.sources.columnar import ColumnarFile, described, type_columns
from penstock.components.sources.python_values import Row, ValueSample
from penstock.components.sources.schema import shown
from penstock.components.sources.spread import Spread
from penstock.components.sources.sql.database import (
    Database,
    Feature,
    SqliteDatabase,
    bound_query,
    parse_address,
    whole_table,
)
from penstock.components.sources.sql.options import Sql
from penstock.components.sources.staging import ROWS_AT_ONCE, StagedSource, stage
from penstock.components.tfrecord.feature_kind import ARROW_TYPES, FeatureKind

# Maximum number of places at which the rows can be divided into shards.
_MOST_PLACES = 4096


def open_sql(inputs: Sequence[str], options: Sql, spread: Spread) -> StagedSource:
    if len(inputs) != 1:
        raise UsageError(f"kind 'sql' takes one address of a database, got {len(inputs)}")
    database = open_database(inputs[0], options.credentials_file)
    return read_database(database, options, spread.workspace())


def open_database(address: str, credentials_file: str | None) -> Database:
    url = parse_address(address)
    if url.get_backend_name() == "sqlite":
        return SqliteDatabase(url, credentials_file)
    if url.drivername == "postgresql+psycopg":
        from penstock.components.sources.sql.postgresql import PostgresDatabase

        return PostgresDatabase(url, credentials_file)
    if url.get_backend_name() == "bigquery":
        from penstock.components.sources.sql.bigquery import BigQueryDatabase

        return BigQueryDatabase(url, credentials_file)
    return Database(url, credentials_file)


def state_of(address: str) -> str | None:
    return open_database(address, None).state()


def read_database(database: Database, options: Sql, workspace: Output) -> StagedSource:
    with database.reading() as connection:
        result = _run(database, options, connection)
        names = _names(database, result)
        features = database.features(result.cursor.description, connection)
        rows: Iterator[Row] = (dict(zip(names, row, strict=True)) for row in result)
        if features is None:
            sampled, features = _sample(rows, names, options.sample_rows)
            rows = chain(sampled, rows)
        columns = _columns(database.shown, dict(zip(names, features, strict=True)), options)
        file = stage(rows, columns, options, database.shown, workspace)
    if not file.rows and not options.allow_empty:
        what = "query" if options.query is not None else f"table {options.table!r}"
        raise DataError(
            f"{database.shown}: the {what} gives no rows; set `allow_empty` if that is fine"
        )
    return StagedSource.of(
        "sql",
        [file],
        Found([FoundFile(database.shown, "")]),
        columns=columns,
        fingerprint=_fingerprint(options, names, file),
        options=options,
        step=max(1, -(-file.rows // _MOST_PLACES)),
    )


def _run(database: Database, options: Sql, connection: Connection) -> CursorResult:
    if options.query is None and options.table is None:
        raise UsageError(f"{database.shown}: say what to read: a query or a table")
    if options.query is None:
        statement = whole_table(str(options.table), connection)
    else:
        query = bound_query(options.query, options.bound_params())
        statement = database.checked(query, connection)
    return database.stream(statement, connection, ROWS_AT_ONCE)


def _names(database: Database, result: CursorResult) -> tuple[str, ...]:
    if result.cursor is None or not result.cursor.description:
        raise UsageError(f"{database.shown}: the query gives no columns; expected a SELECT")
    names = tuple(str(one[0]) for one in result.cursor.description)
    seen = Counter(name if database.tells_case else name.lower() for name in names)
    twice = [name for name, count in seen.items() if count > 1]
    if twice or not all(name.strip() for name in names):
        what = f"duplicate column {shown(twice)}" if twice else "a column without a name"
        raise DataError(f"{database.shown}: {what}; give each a name of its own (AS) in the query")
    return names


def _sample(
    rows: Iterator[Row], names: Sequence[str], most: int
) -> tuple[list[Row], list[Feature]]:
    sample, sampled, size = ValueSample(), list[Row](), 0
    for row in rows:
        sampled.append(row)
        sample.add(row, "")
        size += sum(len(value) for value in row.values() if isinstance(value, (str, bytes, list)))
        if len(sampled) >= most or size >= MAX_BATCH_BYTES:
            break
    return sampled, [sample.feature(name) for name in names]


def _columns(place: str, found: dict[str, Feature], options: Sql) -> tuple[Column, ...]:
    schema = pa.schema([(name, _arrow_type(*feature)) for name, feature in found.items()])
    return type_columns([described(place, Content(b"", 0, 0), schema, ())], options)


def _arrow_type(kind: FeatureKind | None, is_list: bool) -> pa.DataType:
    value = ARROW_TYPES[kind] if kind else pa.null()
    return pa.list_(value) if is_list else value


def _fingerprint(options: Sql, names: Sequence[str], file: ColumnarFile) -> str:
    picked = [options.query, options.table, sorted(options.bound_params().items()), list(names)]
    digest = hashlib.sha256(b"sql\0" + json.dumps(picked).encode())
    digest.update(file.content.digest)
    return digest.hexdigest()
