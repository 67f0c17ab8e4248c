"""Rows of a database as a `Source`: ranges of a key, each read in key order by one worker.

Opening it counts and digests the rows and finds keys that divide them evenly. Each worker checks
that it reads as many rows as were counted.
"""

import weakref
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from penstock.components.errors import DataError, UsageError
from penstock.components.sources.base import Batch, Piece, Source
from penstock.components.sources.batches import (
    FIRST_BATCH_ROWS,
    batch_without,
    convert_columns,
    joined,
    next_batch_rows,
)
from penstock.components.sources.files import RowStart, cut_files
from penstock.components.sources.python_values import row_json, to_column
from penstock.components.sources.sql.address import parse_address
from penstock.components.sources.sql.database import Database, stream
from penstock.components.sources.sql.options import Sql
from penstock.components.sources.sql.plan import SqlPlan, make_plan, user_query
from penstock.components.sources.sql.statements import KeyRange, Statements

# A thousand rows of Python values still fit the processor's cache when Arrow converts them: with 40
# columns, 6.0 us per row, against 7.5 us with 256 or 8192 rows.
_FETCH_ROWS = 1024


class _Rows(NamedTuple):
    path: str
    units: int


@dataclass(frozen=True, eq=False, kw_only=True)
class SqlSource(Source):
    """The rows of a query or table, counted and typed, in the state of the data that `mark` names.

    `files` is the address, without login. `input_bytes` is 0 if the size is unknown.
    """

    database: Database
    options: Sql
    plan: SqlPlan
    mark: str | None

    def cut(self, parts: int) -> list[tuple[Piece, ...]]:
        """Returns `parts` runs of key ranges with about equal numbers of rows.

        Rows with equal keys stay in one range; so do rows without a key.
        """

        def row_start(_: _Rows, row: int, __: RowStart | None) -> RowStart:
            at = self.plan.boundary_at(row)
            return RowStart(at, at + 1)

        return cut_files([_Rows(self.files[0], self.rows)], parts, row_start)

    def part(self, pieces: tuple[Piece, ...]) -> tuple[Source, tuple[Piece, ...]]:
        ends = {end for piece in pieces for end in (piece.start, piece.end)}
        boundaries = {row: key for row, key in self.plan.boundaries.items() if row in ends}
        return replace(self, plan=replace(self.plan, boundaries=boundaries)), pieces

    def read(self, pieces: Sequence[Piece]) -> Iterator[Batch]:
        return joined(self._fetched(pieces))

    def _fetched(self, pieces: Sequence[Piece]) -> Iterator[Batch]:
        keyed = self.plan.keyed_rows
        for piece in pieces:
            if piece.start < keyed:
                end = min(piece.end, keyed)
                yield from self._range(piece.start, end, self.plan.keys_of(piece.start, end))
            if piece.end > keyed:
                yield from self._range(max(piece.start, keyed), piece.end, None)

    def _range(self, start: int, end: int, keys: KeyRange | None) -> Iterator[Batch]:
        query = user_query(self.database, self.options)
        statements = Statements(
            query, self.plan.names, self.plan.key, key_as_text=self.plan.key_as_text
        )
        names = [column.name for column in self.columns if column.name in self.plan.names]
        row, wanted = start, FIRST_BATCH_ROWS
        with self.database.reading(self.mark) as connection:
            with self.database.errors_named():
                result = stream(connection, statements.read(names, keys), wanted)
            while True:
                with self.database.errors_named():
                    rows = result.fetchmany(wanted)
                if not rows:
                    break
                batch = self._batch(rows, names, row)
                yield batch
                row += len(rows)
                wanted = next_batch_rows(wanted, batch.table.nbytes // len(rows), _FETCH_ROWS)
        if row != end:
            raise DataError(
                f"{self.files[0]}: {row - start} rows in a range of the key {self.plan.key!r} that "
                f"had {end - start} when they were counted; the data were changed, start again"
            )

    def _batch(self, rows: Sequence[Sequence[Any]], names: Sequence[str], before: int) -> Batch:
        """Converts rows of (key, columns `names`); `before` counts the rows before them."""
        _, *values = zip(*rows, strict=True)
        found = dict(zip(names, values, strict=True))
        nothing = (None,) * len(rows)
        policy = self.options.non_finite
        table, faults = convert_columns(
            self.columns, lambda column: to_column(found.get(column.name, nothing), column, policy)
        )

        def raw(at: int) -> bytes:
            return row_json(dict(zip(names, rows[at][1:], strict=True)))

        return batch_without(faults, table, self.files[0], before + 1, raw)


def open_sql(inputs: Sequence[str], options: Sql) -> SqlSource:
    if len(inputs) != 1:
        raise UsageError(f"kind 'sql' takes one address of a database, got {len(inputs)}")
    return open_rows(open_database(inputs[0], options.credentials_file), options)


def open_rows(database: Database, options: Sql) -> SqlSource:
    with ExitStack() as stack:
        with database.errors_named():
            connection = stack.enter_context(database.reading(None))
            mark = database.mark(connection)
            plan = make_plan(database, options, connection)
        source = SqlSource(
            kind="sql",
            columns=plan.columns,
            fingerprint=plan.fingerprint,
            rows=plan.rows,
            files=(database.shown,),
            input_bytes=database.input_bytes,
            database=database,
            options=options,
            plan=plan,
            mark=mark,
        )
        if database.mark_needs_connection:
            # The connection stays open as long as the source exists in this process.
            weakref.finalize(source, stack.pop_all().close)
    return source


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
