"""One task of an ingest: reads some pieces of a source, and writes one shard of each split."""

import base64
import json
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from operator import methodcaller
from pathlib import Path
from typing import Any, TextIO

import numpy as np
import pyarrow as pa

from penstock.components import activity
from penstock.components.errors import DataError
from penstock.components.example_gen.options import IngestOptions, SplitOptions
from penstock.components.example_gen.splits import assign_splits, row_digests
from penstock.components.files.output import Output
from penstock.components.sources.base import MAX_BATCH_BYTES, Batch, Piece, RejectedRow, Source
from penstock.components.tfrecord.encoder import encode_examples
from penstock.components.tfrecord.manifest import Shard
from penstock.components.tfrecord.sharding import shard_name, split_dir
from penstock.components.tfrecord.writer import ShardWriter, frame_records

QUARANTINE_DIR = "quarantine"
_ADVICE = re.compile(r"; [a-z]")


@dataclass(frozen=True)
class ShardTask:
    number: int  # index among all tasks of an ingest
    source: Source
    splits: SplitOptions
    index: int  # index of the shard in each split
    count: int  # number of shards in each split
    pieces: tuple[Piece, ...]


@dataclass(frozen=True)
class TaskResult:
    shards: dict[str, Shard]
    read: int  # number of rows, blank ones included
    quarantined: int
    blank: int
    first_rejected: str | None  # place and reason of the first rejected row


def strict_error(row: RejectedRow) -> DataError:
    # "fix it" is added only if the reason does not already end with advice, such as "; copy it
    # again".
    advice = "," if _ADVICE.search(row.reason) else "; fix it,"
    return DataError(f"{row}{advice} or quarantine it with `on_bad_row=quarantine`")


@dataclass(frozen=True)
class WriteShards:
    output: Output
    options: IngestOptions

    def __call__(self, task: ShardTask) -> TaskResult:
        with self.output.new_try() as folder:
            result = write_files(task, self.options, folder)
            self.output.take(folder)
        return result


def write_files(task: ShardTask, options: IngestOptions, folder: Path) -> TaskResult:
    names = [split.name for split in task.splits.splits]
    name = shard_name(task.index, task.count, compression=options.compression)
    read = blank = 0
    with ExitStack() as stack:
        quarantine = stack.enter_context(
            QuarantineWriter(folder / QUARANTINE_DIR / f"rejected-{task.number:05d}.jsonl")
        )
        writers = [
            stack.enter_context(
                ShardWriter(folder, f"{split_dir(split)}/{name}", compression=options.compression)
            )
            for split in names
        ]
        for found in task.source.read(task.pieces):
            batch = _without_missing(found, options.skip_missing)
            if batch.rejected and options.on_bad_row == "strict":
                raise strict_error(batch.rejected[0])
            quarantine.write(batch.rejected)
            for part in _bounded(batch):
                _write(part, task.splits, writers)
            read += batch.rows_read
            blank += batch.blank
            activity.advance(batch.rows_read)
        shards = {n: w.finish() for n, w in zip(names, writers, strict=True)}
    return TaskResult(shards, read, quarantine.rows, blank, quarantine.first)


def _without_missing(batch: Batch, columns: Sequence[str]) -> Batch:
    """Removes rows without a value in one of `columns`, and counts them as blank."""
    missing = np.zeros(batch.table.num_rows, bool)
    for name in columns:
        missing |= batch.table.column(name).is_null().to_numpy(zero_copy_only=False)
    if not missing.any():
        return batch
    kept = methodcaller("filter", pa.array(~missing))
    return _picked(batch, kept, blank=batch.blank + int(missing.sum()))


def _picked(batch: Batch, pick: Callable[[Any], Any], **changes: Any) -> Batch:
    parts = {name: getattr(batch, name) for name in ("table", "records", "digests")}
    changes |= {name: None if part is None else pick(part) for name, part in parts.items()}
    return replace(batch, **changes)


def _write(batch: Batch, options: SplitOptions, writers: Sequence[ShardWriter]) -> None:
    records = encode_examples(batch.table) if batch.records is None else batch.records
    digests = row_digests(records) if batch.digests is None else batch.digests.to_pylist()
    splits = assign_splits(batch.table, digests, options)
    framed = frame_records(records)
    if len(writers) == 1:
        writers[0].write(framed)
    else:
        for i, writer in enumerate(writers):
            writer.write(framed.filter(pa.array(splits == i)))


def _bounded(batch: Batch) -> Iterator[Batch]:
    rows = batch.table.num_rows
    size = max(batch.table.nbytes, 0 if batch.records is None else batch.records.nbytes)
    step = max(1, rows * MAX_BATCH_BYTES // max(1, size))
    for start in range(0, rows, step):
        yield _picked(batch, methodcaller("slice", start, step))


class QuarantineWriter:
    """Context manager that writes rejected rows to a file, which it creates at the first such row.

    Each line is an object with `file`, `line`, `row`, `column`, `reason`, and the row's bytes from
    the file: in `raw`, or in `raw_base64` if they are not UTF-8.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._out: TextIO | None = None
        self.rows = 0
        self.first: str | None = None  # place and reason of the first rejected row

    def write(self, rejected: Sequence[RejectedRow]) -> None:
        if not rejected:
            return
        if self._out is None:
            self._path.parent.mkdir(exist_ok=True)
            self._out = self._path.open("w", encoding="utf-8")
            self.first = str(rejected[0])
        self._out.writelines(json.dumps(_as_json(row)) + "\n" for row in rejected)
        self.rows += len(rejected)

    def __enter__(self) -> "QuarantineWriter":
        return self

    def __exit__(self, *error: object) -> None:
        if self._out is not None:
            self._out.close()


def _as_json(row: RejectedRow) -> dict[str, object]:
    entry = {name: getattr(row, name) for name in ("file", "line", "row", "column", "reason")}
    try:
        entry["raw"] = row.raw.decode()
    except UnicodeDecodeError:
        entry["raw_base64"] = base64.b64encode(row.raw).decode()
    return entry
