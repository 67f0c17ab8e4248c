"""Rows of a database as a `Source`: one query in one transaction, staged as Parquet.

The query is read once, from its first row to its last. Whatever ends it before, nothing is left.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

import pyarrow as pa
from sqlalchemy import inspect
from sqlalchemy.engine import Connection, CursorResult

from penstock.components.errors import DataError, TriesFailedError, UsageError
from penstock.components.files.content import Content
from penstock.components.files.output import Output
from penstock.components.sources.base import MAX_BATCH_BYTES, Column
from penstock.components.sources.batches import (
    FIRST_BATCH_ROWS,
    Faults,
    convert_columns,
    next_batch_rows,
)
from penstock.components.sources.columnar import ColumnarFile, type_columns
from penstock.components.sources.python_values import ValueSample, row_json, to_column
from penstock.components.sources.schema import shown
from penstock.components.sources.spread import Spread
from penstock.components.sources.sql.address import parse_address
from penstock.components.sources.sql.database import Database, Feature
from penstock.components.sources.sql.options import Sql
from penstock.components.sources.sql.statements import bound_query, whole_table
from penstock.components.sources.staging import StagedFile, StagedSource, stage, with_faults
from penstock.components.tfrecord.feature_kind import ARROW_TYPES, FeatureKind

# A thousand rows of Python values still fit the processor's cache when Arrow converts them: with 40
# columns, 6.0 us per row, against 7.5 us with 256 or 8192 rows.
_FETCH_ROWS = 1024
# Workers divide the rows at no more places than this, for the same shards whatever the parts.
_MOST_PLACES = 4096

Fetched = Sequence[Sequence[Any]]


def open_sql(inputs: Sequence[str], options: Sql, spread: Spread) -> StagedSource:
    if len(inputs) != 1:
        raise UsageError(f"kind 'sql' takes one address of a database, got {len(inputs)}")
    database = open_database(inputs[0], options.credentials_file)
    return read_database(database, options, spread.workspace())


def open_database(address: str, credentials_file: str | None) -> Database:
    url = parse_address(address)
    name = url.get_backend_name()
    if name == "sqlite":
        from penstock.components.sources.sql.sqlite import SqliteDatabase

        return SqliteDatabase(url, credentials_file)
    if url.drivername == "postgresql+psycopg":
        from penstock.components.sources.sql.postgresql import PostgresDatabase

        return PostgresDatabase(url, credentials_file)
    if name == "bigquery":
        from penstock.components.sources.sql.bigquery import BigQueryDatabase

        return BigQueryDatabase(url, credentials_file)
    return Database(url, credentials_file)


def state_of(address: str) -> str | None:
    return open_database(address, None).state()


def read_database(database: Database, options: Sql, workspace: Output) -> StagedSource:
    with database.reading() as connection:
        try:
            result = _run(database, options, connection)
        except TriesFailedError:
            raise
        except DataError as error:
            raise _with_tables(error, database, options) from error
        names = _names(database, result)
        features = database.features(result.cursor.description, connection)
        chunks = _chunks(result)
        if features is None:
            sampled, features = _sample(chunks, names, options.sample_rows)
            chunks = chain(sampled, chunks)
        columns = _columns(database.shown, dict(zip(names, features, strict=True)), options)
        files = stage(
            _converted(chunks, names, columns, options.non_finite), database.shown, workspace
        )
    rows = sum(file.rows for file in files)
    if not rows and not options.allow_empty:
        what = "query" if options.query is not None else f"table {options.table!r}"
        raise DataError(
            f"{database.shown}: the {what} gives no rows; set `allow_empty` if that is fine"
        )
    return StagedSource(
        kind="sql",
        columns=columns,
        fingerprint=_fingerprint(options, names, files),
        rows=rows,
        files=(database.shown,),
        input_bytes=sum(file.content.size for file in files),
        options=options,
        scanned={file.path: file for file in files},
        step=max(1, -(-rows // _MOST_PLACES)),
    )


def _run(database: Database, options: Sql, connection: Connection) -> CursorResult:
    if options.query is None and options.table is None:
        raise UsageError(f"{database.shown}: say what to read: a query or a table")
    with database.errors_named():
        if options.query is None:
            statement = whole_table(str(options.table), connection)
        else:
            query = bound_query(options.query, options.bound_params())
            statement = database.checked(query, connection)
        return database.stream(statement, connection, _FETCH_ROWS)


def _names(database: Database, result: CursorResult) -> tuple[str, ...]:
    if result.cursor is None or not result.cursor.description:
        raise UsageError(f"{database.shown}: the query gives no columns; expected a SELECT")
    names = tuple(str(one[0]) for one in result.cursor.description)
    names_seen = Counter(name if database.tells_case else name.lower() for name in names)
    twice = [name for name, count in names_seen.items() if count > 1]
    if twice or not all(name.strip() for name in names):
        what = f"duplicate column {shown(twice)}" if twice else "a column without a name"
        if twice and len(set(names)) == len(names):
            alike = [name for name in names if name.lower() in twice]
            what = f"columns that differ in case only ({shown(alike)})"
        raise DataError(f"{database.shown}: {what}; give each a name of its own (AS) in the query")
    return names


def _chunks(result: CursorResult) -> Iterator[Fetched]:
    wanted = FIRST_BATCH_ROWS
    while rows := result.fetchmany(wanted):
        yield rows
        wanted = next_batch_rows(wanted, _bytes(rows) // len(rows), _FETCH_ROWS)


def _bytes(rows: Fetched) -> int:
    return sum(len(value) for row in rows for value in row if isinstance(value, (str, bytes, list)))


def _sample(
    chunks: Iterator[Fetched], names: Sequence[str], most: int
) -> tuple[list[Fetched], list[Feature]]:
    """Returns the first chunks, of about `most` rows, and the types of the columns in them.

    A column without a value in these rows is looked for in ten times as many, since its type would
    be a guess.
    """
    sample, sampled, rows, size = ValueSample(), list[Fetched](), 0, 0
    for chunk in chunks:
        sampled.append(chunk)
        for row in chunk[: most - rows] if rows < most else chunk:
            sample.add(dict(zip(names, row, strict=True)), "")
        rows += len(chunk)
        size += _bytes(chunk)
        is_known = all(sample.feature(name)[0] is not None for name in names)
        if size >= MAX_BATCH_BYTES or rows >= (most if is_known else 10 * most):
            break
    return sampled, [sample.feature(name) for name in names]


def _converted(
    chunks: Iterable[Fetched], names: Sequence[str], columns: Sequence[Column], non_finite: str
) -> Iterator[pa.RecordBatch]:
    """Yields rows to stage, of those columns that the source has."""
    wanted = {column.name for column in columns}
    for rows in chunks:
        values = dict(zip(names, zip(*rows, strict=True), strict=True))
        yield _batch({n: v for n, v in values.items() if n in wanted}, columns, non_finite)


def _batch(
    values: Mapping[str, Sequence[Any]], columns: Sequence[Column], non_finite: str
) -> pa.RecordBatch:
    nothing = (None,) * len(next(iter(values.values())))

    def convert(column: Column) -> tuple[pa.Array, Faults]:
        return to_column(values.get(column.name, nothing), column, non_finite)

    def raw(at: int) -> bytes:
        return row_json({name: of_rows[at] for name, of_rows in values.items()})

    return with_faults(*convert_columns(columns, convert), raw)


def _with_tables(error: DataError, database: Database, options: Sql) -> DataError:
    """Adds the names of the tables, if the one that was asked for is not among them."""
    if options.table is None or "." in options.table:
        return error
    try:
        # Another connection: PostgreSQL refuses further statements after an error.
        with database.reading() as connection:
            inspector = inspect(connection)
            there = sorted([*inspector.get_table_names(), *inspector.get_view_names()])
    except Exception:  # Only advice is lost: a login may read a table, but not list others.
        return error
    if options.table in there:
        return error
    return DataError(f"{error}; its tables: {shown(there) if there else 'none'}")


def _columns(place: str, found: dict[str, Feature], options: Sql) -> tuple[Column, ...]:
    """Returns the columns that a file with such columns has."""
    types = {name: _arrow_type(*feature) for name, feature in found.items()}
    content = Content(b"", 0, 0)
    file = ColumnarFile(
        path=place, content=content, rows=0, schema=pa.schema(list(types.items())), group_ends=()
    )
    return type_columns([file], options)


def _arrow_type(kind: FeatureKind | None, is_list: bool) -> pa.DataType:
    value = ARROW_TYPES[kind] if kind else pa.null()
    return pa.list_(value) if is_list else value


def _fingerprint(options: Sql, names: Sequence[str], files: Sequence[StagedFile]) -> str:
    picked = [options.query, options.table, sorted(options.bound_params().items()), list(names)]
    digest = hashlib.sha256(b"sql\0" + json.dumps(picked).encode())
    for file in files:
        digest.update(file.content.digest)
    return digest.hexdigest()
