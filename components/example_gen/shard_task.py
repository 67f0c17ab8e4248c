"""The unit of work: some pieces of a source in, one shard of each split out."""

import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.components.errors import DataError
from penstock.components.example_gen.options import IngestOptions
from penstock.components.example_gen.parquet_copy import PARQUET_DIR, ParquetCopy, parquet_name
from penstock.components.example_gen.quarantine import QUARANTINE_DIR, QuarantineWriter
from penstock.components.example_gen.split_options import SplitOptions
from penstock.components.example_gen.splits import assign_by_digest, assign_splits
from penstock.components.sources.base import (
    MAX_BATCH_BYTES,
    Batch,
    Piece,
    RejectedRow,
    Source,
)
from penstock.components.tfrecord.encoder import encode_examples
from penstock.components.tfrecord.manifest import Shard
from penstock.components.tfrecord.sharding import shard_name, split_dir
from penstock.components.tfrecord.writer import (
    ShardWriter,
    digest_large,
    encode_large,
    frame_large,
    frame_records,
    has_large_values,
)

# A batch may take some milliseconds; that is how often a person sees a difference.
_TOLD_EVERY_SECONDS = 0.2

_ADVICE = re.compile(r"; [a-z]")

# Of each row, the index of its split.
Places = npt.NDArray[np.int64]
# Appends the rows of a batch to the shards of their splits.
WriteBatch = Callable[[Batch, SplitOptions, Sequence[ShardWriter]], Places]


@dataclass(frozen=True)
class ShardTask:
    """One shard's worth of work.

    Attributes:
        number: The task's, among all of an ingest.
        source: What reads the pieces, and has nothing of others.
        splits: How its rows are divided.
        index: The shard's number.
        count: Number of shards of each split.
        pieces: What to read.
    """

    number: int
    source: Source
    splits: SplitOptions
    index: int
    count: int
    pieces: tuple[Piece, ...]


@dataclass(frozen=True)
class TaskResult:
    """What a task did.

    Attributes:
        shards: The shard that it wrote of each split.
        read: Rows that it read, blank ones included.
        quarantined: Rows that it quarantined.
        blank: Blank lines that it passed over.
        first_rejected: Place and reason of the first row that it quarantined.
    """

    shards: dict[str, Shard]
    read: int
    quarantined: int
    blank: int
    first_rejected: str | None


class StrictError(DataError):
    """Strict mode met a row that does not fit."""

    def __init__(self, row: RejectedRow) -> None:
        # A reason may end with advice of its own, "; copy it again".
        advice = "," if _ADVICE.search(row.reason) else "; fix it,"
        super().__init__(f"{row}{advice} or quarantine it with `on_bad_row=quarantine`")


def write_examples(batch: Batch, options: SplitOptions, writers: Sequence[ShardWriter]) -> Places:
    """Append rows as Examples; says each one's split."""
    is_large = batch.records is None and has_large_values(batch.table)
    return (_write_large if is_large else _write_small)(batch, options, writers)


def run_task(
    task: ShardTask,
    options: IngestOptions,
    folder: Path,
    *,
    on_rows: Callable[[int], None],
    write: WriteBatch = write_examples,
) -> TaskResult:
    """Read the task's pieces and write its files.

    Args:
        task: The work.
        options: Compression, and what to do with bad rows.
        folder: Of this try alone; its files have their names in the output there.
        on_rows: Is told now and then how many rows were read until then.
        write: Appends a batch of rows to shards.

    Raises:
        StrictError: A row does not fit, in strict mode.
    """
    splits, names = task.splits, [split.name for split in task.splits.splits]
    name = shard_name(task.index, task.count, compression=options.compression)
    read = blank = 0
    next_told = 0.0
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
        copies = [stack.enter_context(copy) for copy in _copies(task, options, folder)]
        for batch in task.source.read(task.pieces):
            _set_aside(batch, options, quarantine)
            for part in _bounded(batch):
                places = write(part, splits, writers)
                for i, copy in enumerate(copies):
                    copy.write(part.table, pa.array(places == i))
            read += batch.rows_read
            blank += batch.blank
            if time.monotonic() >= next_told:
                on_rows(read)
                next_told = time.monotonic() + _TOLD_EVERY_SECONDS
        on_rows(read)
        shards = {n: w.finish() for n, w in zip(names, writers, strict=True)}
    return TaskResult(shards, read, quarantine.rows, blank, quarantine.first)


def _copies(task: ShardTask, options: IngestOptions, folder: Path) -> list[ParquetCopy]:
    """A file of the Parquet copy for each split, if one is wanted."""
    if not options.parquet_copy:
        return []
    name = parquet_name(task.index, task.count)
    return [
        ParquetCopy(folder / PARQUET_DIR / split.name / name, task.source.columns)
        for split in task.splits.splits
    ]


def _set_aside(batch: Batch, options: IngestOptions, quarantine: QuarantineWriter) -> None:
    if batch.rejected and options.on_bad_row == "strict":
        raise StrictError(batch.rejected[0])
    quarantine.write(batch.rejected)


def _write_small(batch: Batch, options: SplitOptions, writers: Sequence[ShardWriter]) -> Places:
    records = encode_examples(batch.table) if batch.records is None else batch.records
    if batch.digests is None:
        splits = assign_splits(batch.table, records, options)
    else:
        splits = assign_by_digest(batch.table, batch.digests.to_pylist(), options)
    framed = frame_records(records)
    if len(writers) == 1:
        writers[0].write(framed)
    else:
        for i, writer in enumerate(writers):
            writer.write(framed.filter(pa.array(splits == i)))
    return splits


def _write_large(batch: Batch, options: SplitOptions, writers: Sequence[ShardWriter]) -> Places:
    records = encode_large(batch.table)
    digests = digest_large(records) if batch.digests is None else batch.digests.to_pylist()
    splits = assign_by_digest(batch.table, digests, options)
    framed = frame_large(records)
    for i, writer in enumerate(writers):
        writer.write_large([framed[at] for at in np.flatnonzero(splits == i)])
    return splits


def _bounded(batch: Batch) -> Iterator[Batch]:
    """The batch's rows, and what goes with each, in slices of `MAX_BATCH_BYTES` or so."""
    table, records, digests = batch.table, batch.records, batch.digests
    size = max(table.nbytes, records.nbytes if records is not None else 0)
    step = max(1, table.num_rows * MAX_BATCH_BYTES // max(1, size))
    for start in range(0, table.num_rows, step):
        yield Batch(
            table.slice(start, step),
            records=records.slice(start, step) if records is not None else None,
            digests=digests.slice(start, step) if digests is not None else None,
        )
