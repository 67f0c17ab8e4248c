"""Processes shards of an Examples folder as tasks, each with a picklable result."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.components import activity
from penstock.components.engine.tasks import Engine, run_tasks
from penstock.components.errors import DataError
from penstock.components.files.output import open_workspace
from penstock.components.sources.tfrecords.examples import (
    Kinds,
    find_splits,
    read_examples,
    read_payloads,
)
from penstock.components.tfrecord.manifest import Shard

Result = TypeVar("Result")

# TFDV's generators take 2.1 us per taxi row in batches of 32,768 rows, and 11.6 us in TFDV's own
# batches of 1,000.
_BATCH_ROWS = 32_768
_SAMPLE_ROWS, _SAMPLE_BYTES, _SAMPLE_PLACES = 100_000, 2**26, 20
# Number of results that are merged at once; merging in pairs would copy the merged accumulators,
# which include tables of distinct values, for every result.
_MAX_UNMERGED = 16


@dataclass(frozen=True)
class ShardTask:
    file: str
    shard: Shard
    kinds: Kinds  # empty if unknown


def shard_tasks(folder: str, split: str) -> list[ShardTask]:
    """Returns the tasks of a split; its shards are checked against the manifest if there is one."""
    [found] = find_splits(folder, [split])
    kinds = frozenset(found.kinds.items())
    pairs = zip(found.files, found.shards, strict=True)
    return [ShardTask(file, shard, kinds) for file, shard in pairs]


def run_shards(
    work: Callable[[ShardTask], Result],
    tasks: Sequence[ShardTask],
    *,
    engine: Engine,
    output: str,
) -> Iterator[Result]:
    """Yields the result of each shard, in the order of tasks.

    All workers must have access to the folder `output`.
    """
    rows = sum(task.shard.rows for task in tasks)
    with open_workspace(output) as place, activity.counting(rows):
        yield from run_tasks(tasks, work, place, engine)


def merge_in_groups(parts: Iterable[Result], merge: Callable[[Sequence[Result]], Result]) -> Result:
    """Merges results while they arrive, so that memory does not grow with the number of results."""
    held: list[Result] = []
    for part in parts:
        held.append(part)
        if len(held) == _MAX_UNMERGED:
            held = [merge(held)]
    return merge(held)


def read_batches(task: ShardTask, rows: int = _BATCH_ROWS) -> Iterator[pa.RecordBatch]:
    """Yields a shard's Examples as tfx_bsl decodes them: one column of lists per feature.

    In a row that lacks a feature, the feature is null; an empty list stays an empty list.
    """
    for batch in read_examples(task.file, task.shard, task.kinds, rows):
        yield batch
        activity.advance(batch.num_rows)


def sample_split(folder: str, split: str) -> pa.Table:
    """Samples at most about `_SAMPLE_ROWS` rows or `_SAMPLE_BYTES` of a split.

    The sample consists of the first rows of shards from all over the split.

    A column has one value or null per row; features with several values in a row are left out.
    """
    tasks = shard_tasks(folder, split)
    rows = sum(task.shard.rows for task in tasks)
    size = sum(task.shard.bytes for task in tasks)
    most = min(_SAMPLE_ROWS, max(1, _SAMPLE_BYTES * rows // max(1, size)))
    chosen = tasks[:: max(1, min(rows // most, len(tasks) // _SAMPLE_PLACES))]
    of_each = min(_BATCH_ROWS, -(-most // max(1, len(chosen))))
    batches = [batch for task in chosen if (batch := next(read_batches(task, of_each), None))]
    names = dict.fromkeys(name for batch in batches for name in batch.schema.names)
    columns = {name: [_single_values(batch, name) for batch in batches] for name in names}
    return pa.table({n: c for n, parts in columns.items() if (c := _joined(parts)) is not None})


def _single_values(batch: pa.RecordBatch, name: str) -> pa.Array | None:
    """Returns the value of each row, or null; returns None if a row has several values."""
    at = batch.schema.get_field_index(name)
    if at < 0 or pa.types.is_null(batch.schema.types[at]):
        return pa.nulls(batch.num_rows)
    lengths = pc.fill_null(pc.list_value_length(batch.column(at)), 0).to_numpy()
    if lengths.max(initial=0) > 1:
        return None
    places = pa.array(np.cumsum(lengths) - 1, mask=lengths == 0)
    return batch.column(at).flatten().take(places)


def _joined(parts: Sequence[pa.Array | None]) -> pa.ChunkedArray | None:
    """Joins a feature's values; returns None if a row has several values, or if types differ."""
    single = [part for part in parts if part is not None]
    kinds = {part.type for part in single} - {pa.null()}
    if len(single) < len(parts) or len(kinds) > 1:
        return None
    kind = next(iter(kinds), pa.float32())
    return pa.chunked_array([part.cast(kind) for part in single], kind)


def read_sequences(task: ShardTask) -> Iterator[pa.RecordBatch]:
    """Yields a shard's SequenceExamples as record batches, as tfx_bsl decodes them."""
    from tfx_bsl.coders.sequence_example_coder import SequenceExamplesToRecordBatchDecoder
    from tfx_bsl.tfxio.tf_sequence_example_record import _SEQUENCE_COLUMN_NAME

    decoder = SequenceExamplesToRecordBatchDecoder(_SEQUENCE_COLUMN_NAME)
    for payloads in read_payloads(task.file, task.shard, rows=_BATCH_ROWS):
        try:
            yield decoder.DecodeBatch(payloads)
        except RuntimeError as error:
            raise DataError(f"{task.file}: {error}") from error
        activity.advance(len(payloads))
