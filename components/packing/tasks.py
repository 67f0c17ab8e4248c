"""The work of packing in parts that know nothing of each other, and nothing of Beam.

    read     a shard of row Examples -> what its columns hold, and its rows by the packed shard
             that they go to, each with its place there
    plan     what the columns of all rows hold -> the layout and the vocabularies
    write    the rows of a packed shard, as they come -> its file

How many packed shards there are is estimated from some rows before, so that each row's shard is
known when it is read.
"""

import math
import posixpath
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.components.errors import DataError
from penstock.components.packing.block import encode_block
from penstock.components.packing.facts import (
    ColumnFacts,
    Facts,
    StatedColumn,
    packed_columns,
    vocabulary,
)
from penstock.components.packing.images import ImageDecoder, image_shape
from penstock.components.packing.layout import PackedLayout
from penstock.components.packing.options import MAX_BLOCK_ROWS, TARGET_BLOCK_BYTES, PackOptions
from penstock.components.packing.permutation import Permutation
from penstock.components.packing.rows import Kinds, ReadShard, RowSplit
from penstock.components.packing.sections import BlockMaker
from penstock.components.packing.shuffle import (
    CHUNK_SHARE,
    Rows,
    RowSorter,
    cut_rows,
    encode_rows,
    without_lists,
)
from penstock.components.tfrecord.manifest import Shard
from penstock.components.tfrecord.sharding import ShardPlan, plan_shards, shard_name, split_dir
from penstock.components.tfrecord.writer import ShardWriter, frame_large

# What tfx_bsl's decoder takes, as a multiple of the parser that training uses (21 and 5 us a row).
_TFX_BSL_TIMES = 4
# The size of a packed row is estimated from the first rows of as many shards of a split.
_SAMPLED_SHARDS = 4

# A split and the number of a shard of it.
Key = tuple[str, int]


@dataclass(frozen=True)
class Job:
    """What all tasks know.

    Attributes:
        options: What to keep and how.
        stated: Columns and shapes as a schema has them; None takes them from the rows.
        kinds: Name and kind of each feature to read; empty reads all there are.
        rows: Rows of each split.
        plans: How many shards each split is packed into.
    """

    options: PackOptions
    stated: Mapping[str, StatedColumn] | None
    kinds: Kinds
    rows: Mapping[str, int]
    plans: Mapping[str, ShardPlan]

    def first_rows(self, split: str) -> list[int]:
        """The place of the first row of each shard of a split, and the number of rows."""
        count = self.plans[split].shards
        return [self.rows[split] * index // count for index in range(count + 1)]


@dataclass(frozen=True)
class ReadTask:
    """A shard to read.

    Attributes:
        number: Of all of a job.
        split: Its split.
        file: Its path or address.
        shard: What is known of it.
        first: Number of its first row in the split.
        read: Reads it.
    """

    number: int
    split: str
    file: str
    shard: Shard
    first: int
    read: ReadShard


def plan_job(
    splits: Sequence[RowSplit],
    options: PackOptions,
    stated: Mapping[str, StatedColumn] | None,
    *,
    may_lower: bool = False,
) -> tuple[Job, list[ReadTask]]:
    """Decide how many shards there will be, and the tasks that read.

    Args:
        splits: Their rows.
        options: What to keep and how.
        stated: Columns and shapes as a schema has them; None takes them from the rows.
        may_lower: Whether a split with fewer rows than shards asked for has as many as rows.

    Raises:
        DataError: The first rows cannot be read, or are no images.
        UsageError: More shards are asked for than there are rows.
    """
    known = {n: column.kind for n, column in stated.items()} if stated else splits[0].kinds
    kinds = frozenset(known.items())
    tasks: list[ReadTask] = []
    for split in splits:
        first = 0
        for file, shard in zip(split.files, split.shards, strict=True):
            tasks.append(ReadTask(len(tasks), split.name, file, shard, first, split.read))
            first += shard.rows
    plans = {}
    for split in splits:
        asked = options.shards
        if may_lower and asked.shards:
            asked = replace(asked, shards=min(asked.shards, max(split.rows, 1)))
        size = int(_row_bytes(split, options, kinds) * split.rows)
        plans[split.name] = plan_shards(size, asked, rows=split.rows)
    return Job(options, stated, kinds, {s.name: s.rows for s in splits}, plans), tasks


def _row_bytes(split: RowSplit, options: PackOptions, kinds: Kinds) -> float:
    """About what a packed row of a split takes, by the first rows of some of its shards."""
    shapes: dict[str, tuple[int, ...]] = {}
    size = rows = 0
    pairs = list(zip(split.files, split.shards, strict=True))
    for file, shard in pairs[:: -(-len(pairs) // _SAMPLED_SHARDS) or 1]:
        batch = next(split.read(file, shard, kinds), None)
        if batch is not None:
            kept = _kept(batch, options)
            size += sum(
                map(partial(_packed_bytes, options, shapes), kept.schema.names, kept.columns)
            )
            rows += batch.num_rows
    return size / max(1, rows)


def _packed_bytes(
    options: PackOptions, shapes: dict[str, tuple[int, ...]], name: str, column: pa.Array
) -> int:
    """About what the values of a column take in a block; `shapes` are those of images seen."""
    if pa.types.is_null(column.type):
        return 0
    values = column.flatten()
    if values.type != pa.large_binary() or not len(values):
        return values.nbytes
    for image in options.images:
        if image.name == name:
            shapes[name] = shapes.get(name) or image_shape(image, values[0].as_py())
            return len(values) * math.prod(shapes[name])
    cells = 4 * len(values)
    return (
        cells if name in options.ids else cells + pc.sum(pc.binary_length(values.unique())).as_py()
    )


def _kept(batch: pa.RecordBatch, options: PackOptions) -> pa.RecordBatch:
    """The columns that are asked for."""
    if not options.columns:
        return batch
    kept = {n: batch.column(i) for i, n in enumerate(batch.schema.names) if n in options.columns}
    return pa.RecordBatch.from_arrays([*kept.values()], [*kept])


def read_shard(
    task: ReadTask, job: Job, facts: Facts, on_rows: Callable[[int], None]
) -> Iterator[tuple[Key, bytes]]:
    """The rows of a shard, as `encode_rows` gives them, by the packed shard that they go to.

    Args:
        task: What to read.
        job: What all tasks know.
        facts: Is added to until the end.
        on_rows: Told of the rows of each batch.

    Raises:
        DataError: The rows cannot be read, or a column has two kinds.
    """
    options = job.options
    order = Permutation(job.rows[task.split], seed=options.seed, name=task.split)
    starts = job.first_rows(task.split)
    waiting = Rows()
    for batch in _timed(task.read(task.file, task.shard, job.kinds), facts):
        begin = task.first + facts.rows
        batch = without_lists(batch)
        facts.add(batch, options, task.number, task.split)
        places = order.places(begin, begin + batch.num_rows)
        waiting.add(places, _kept(batch, options))
        on_rows(batch.num_rows)
        if waiting.bytes >= options.memory_bytes // CHUNK_SHARE:
            yield from _by_shard(task.split, waiting, starts)
    if waiting.rows:
        yield from _by_shard(task.split, waiting, starts)
    if not job.kinds:
        facts.pass_seconds /= _TFX_BSL_TIMES


def _timed(batches: Iterator[pa.RecordBatch], facts: Facts) -> Iterator[pa.RecordBatch]:
    """The batches, the CPU time that they take to come added to the facts."""
    began = time.process_time()
    for batch in batches:
        facts.pass_seconds += time.process_time() - began
        yield batch
        began = time.process_time()


def _by_shard(split: str, waiting: Rows, starts: Sequence[int]) -> Iterator[tuple[Key, bytes]]:
    places, rows = waiting.take()
    shards = np.searchsorted(starts, places, side="right") - 1
    for shard, some, part in cut_rows(places - np.take(starts, shards), rows, shards):
        yield (split, shard), encode_rows(some, part)


def plan_layout(facts: Facts, job: Job) -> tuple[PackedLayout, dict[str, list[bytes]]]:
    """Decide how columns are stored: the layout, and each vocabulary's values, by its path.

    Raises:
        DataError: The rows do not fit what is asked for.
        UsageError: There is no such column.
    """
    options = job.options
    shapes = {}
    for image in options.images:
        first = facts.columns[image.name].first if image.name in facts.columns else None
        shapes[image.name] = image_shape(image, first[1] if first else b"")
    columns = packed_columns(facts, options, job.stated, shapes)
    layout = PackedLayout(columns, 1, options.seed)
    rows = options.block_rows or min(MAX_BLOCK_ROWS, max(1, TARGET_BLOCK_BYTES // layout.row_bytes))
    vocabularies = {
        column.vocabulary: vocabulary(
            facts.columns.get(column.name, ColumnFacts()), filled=column.filled
        )
        for column in columns
        if column.vocabulary
    }
    return replace(layout, block_rows=rows), vocabularies


def block_maker(layout: PackedLayout, job: Job, read: Callable[[str], bytes]) -> BlockMaker:
    """What makes blocks; `read` gives the bytes of a vocabulary's file by its path."""
    shapes = {column.name: column.shape for column in layout.columns}
    decoders = {i.name: ImageDecoder(i, shapes[i.name]) for i in job.options.images}
    vocabularies = {
        column.name: pa.array(read(column.vocabulary).split(b"\n")[:-1], pa.binary())
        for column in layout.columns
        if column.vocabulary
    }
    return BlockMaker(layout, vocabularies, decoders)


def vocabulary_file(path: str, values: Sequence[bytes]) -> bytes:
    """The bytes of a vocabulary: one value a line.

    Raises:
        DataError: A value has a line break.
    """
    for value in values:
        if b"\n" in value or b"\r" in value:
            raise DataError(
                f"{posixpath.basename(path).removesuffix('.txt')}: the value {value!r} has a line "
                "break, which a vocabulary of one value a line cannot hold; pack the column "
                "without ids"
            )
    return b"".join(value + b"\n" for value in values)


def write_shard(
    key: Key,
    found: Iterable[bytes | str | PackedLayout],
    job: Job,
    folder: Path,
    make: Callable[[PackedLayout], BlockMaker],
    on_rows: Callable[[int], None],
) -> Shard:
    """Write a packed shard.

    Args:
        key: Which.
        found: Its rows as `read_shard` gives them, or paths of files that these are in, which are
            removed; and the layout of its blocks, all in any order.
        job: What all tasks know.
        folder: Of this try alone; the file has its name in the output there.
        make: Gives what makes blocks of a layout.
        on_rows: Told of the rows of each block.

    Raises:
        DataError: An image cannot be decoded, or has another shape than the others.
    """
    split, index = key
    first, end = job.first_rows(split)[index : index + 2]
    sorter = RowSorter(folder / "parts", end - first, memory_bytes=job.options.memory_bytes)
    files, layout = set(), None
    for one in found:
        if isinstance(one, bytes):
            sorter.add_encoded(one)
        elif isinstance(one, str):
            files.add(Path(one))
        else:
            layout = one
    assert layout is not None, "the plan comes with each shard"
    for file in files:
        sorter.add_encoded(file)
        file.unlink()
    assert sorter.rows == end - first, "each row comes once"
    maker, step = make(layout), layout.block_rows
    sizes = (min(step, end - begin) for begin in range(first, end, step))
    name = f"{split_dir(split)}/{shard_name(index, job.plans[split].shards)}"
    with ShardWriter(folder, name) as writer:
        for batch in sorter.in_order(sizes):
            record = encode_block(maker.block(batch), layout)
            writer.write_large(frame_large([(record,)]))
            on_rows(batch.num_rows)
        return replace(writer.finish(), rows=end - first)
