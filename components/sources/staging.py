"""Rows that can be read only once and in order, staged as Parquet that workers read in any parts.

A database's result and an Avro file are converted while they are read. The last column of a staged
file is JSON of (column, reason, raw row) for a row that is rejected, and null for a good one.
"""

import json
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.components.files.content import Content, hash_file, look
from penstock.components.files.output import Output
from penstock.components.sources.base import Batch, Piece, RejectedRow
from penstock.components.sources.batches import RowFault, batch_of, rows_without
from penstock.components.sources.columnar import ColumnarFile
from penstock.components.sources.parquet import ParquetSource, inspect_parquet
from penstock.components.tfrecord.sharding import MIB

# A name that no column has: neither kind allows a blank one.
_FAULT = " "
# Bounds the memory of a reader: it decodes a group of rows at once.
_GROUP_BYTES = 16 * MIB
# Bounds the disk of a worker that stages files below the address of a store.
_FILE_BYTES = 256 * MIB


@dataclass(frozen=True, eq=False, kw_only=True)
class StagedFile(ColumnarFile):
    place: str  # What the rows were read from, for messages.
    rows_before: int  # Rows of `place` in the files before this one.


@dataclass(frozen=True, eq=False, kw_only=True)
class StagedSource(ParquetSource):
    """Rows of staged files; a part begins at a multiple of `step` rows."""

    step: int = 1
    also_read = (_FAULT,)

    def cut(self, parts: int) -> list[tuple[Piece, ...]]:
        shares = [-(-(part * self.rows // parts) // self.step) for part in range(parts + 1)]
        bounds = [min(share * self.step, self.rows) for share in shares]
        runs: list[list[Piece]] = [[] for _ in range(parts)]
        before = 0
        for file in self.scanned.values():
            for run, (low, high) in zip(runs, pairwise(bounds), strict=True):
                start, end = max(0, low - before), min(file.rows, high - before)
                if start < end:
                    run.append(Piece(file.path, start, end, start + 1))
            before += file.rows
        return [tuple(run) for run in runs]

    def _convert(
        self, batch: pa.RecordBatch, names: Sequence[str], file: ColumnarFile, first: int
    ) -> Batch:
        assert isinstance(file, StagedFile)
        found = dict(zip(names, batch.columns, strict=True))
        faults = {at: text for at, text in enumerate(found[_FAULT].to_pylist()) if text}
        number = file.rows_before + first + 1
        rejected = [_rejected(file.place, number + at, text) for at, text in faults.items()]
        nothing = [pa.nulls(batch.num_rows, column.arrow_type) for column in self.columns]
        arrays = [found.get(c.name, none) for c, none in zip(self.columns, nothing, strict=True)]
        return Batch(rows_without(faults, batch_of(self.columns, arrays)), rejected)


def _rejected(place: str, row: int, text: str) -> RejectedRow:
    column, reason, raw = json.loads(text)
    return RejectedRow(place, row, 0, column, reason, raw.encode("utf-8", "surrogateescape"))


def with_faults(
    table: pa.RecordBatch, faults: Mapping[int, RowFault], raw: Callable[[int], bytes]
) -> pa.RecordBatch:
    """Returns rows to stage; `raw` returns the bytes of a faulty row."""
    texts = [None] * table.num_rows
    for at, (column, reason) in faults.items():
        row = raw(at).decode("utf-8", "surrogateescape")
        texts[at] = json.dumps([column, reason, row])  # type: ignore[call-overload]
    return pa.RecordBatch.from_arrays(
        [*table.columns, pa.array(texts, pa.string())], [*table.schema.names, _FAULT]
    )


def stage(batches: Iterable[pa.RecordBatch], place: str, workspace: Output) -> list[StagedFile]:
    """Writes rows of `with_faults` to new files; a file that is cut off is in none of them."""
    files, rows = list[StagedFile](), 0
    groups = _groups(iter(batches))
    for group in groups:
        files.append(_stage_file(chain([group], groups), place, rows, workspace))
        rows += files[-1].rows
    return files


def _stage_file(
    groups: Iterable[pa.Table], place: str, rows_before: int, workspace: Output
) -> StagedFile:
    name = f"rows-{uuid.uuid4().hex}.parquet"
    with workspace.new_try() as folder:
        path = str(folder / name)
        _write(path, iter(groups))
        file, digest = inspect_parquet(path), hash_file(path).digest
        workspace.take(folder)
    path = workspace.place(name)
    fields = {**vars(file), "path": path, "content": Content(digest, *look(path))}
    return StagedFile(**fields, place=place, rows_before=rows_before)


def _write(path: str, groups: Iterator[pa.Table]) -> None:
    size, first = 0, next(groups)
    # Python's file: its error of a full disk names the cause.
    with open(path, "wb") as file, pq.ParquetWriter(file, first.schema) as writer:
        for group in chain([first], groups):
            writer.write_table(group, row_group_size=group.num_rows)
            size += group.nbytes
            if size >= _FILE_BYTES:
                return


def _groups(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
    waiting, size = list[pa.RecordBatch](), 0
    for batch in batches:
        waiting.append(batch)
        size += batch.nbytes
        if size >= _GROUP_BYTES:
            yield pa.Table.from_batches(waiting)
            waiting, size = [], 0
    if waiting:
        yield pa.Table.from_batches(waiting)
