"""The two kinds of packing tasks, and the plan between them.

    read     a shard of row Examples -> facts about its columns; and its rows, each with its place
             in a packed shard, in a file of the output (.work/rows-00012)
    plan     facts about all rows -> the layout and the vocabularies
    write    the parts of these files that contain one packed shard's rows -> that packed shard

The number of packed shards is estimated from a sample beforehand, so that a row's shard is known
when the row is read. Reading and writing tasks share only the output, so any engine can run them.
"""

import math
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.components import activity
from penstock.components.errors import naming
from penstock.components.files.content import hash_file
from penstock.components.files.output import WORK_DIR, Output
from penstock.components.packing.arrays import BlockMaker, image_shape
from penstock.components.packing.facts import (
    ColumnFacts,
    Facts,
    StatedColumn,
    packed_columns,
    vocabulary,
)
from penstock.components.packing.layout import PackedColumn, PackedLayout, packed_name
from penstock.components.packing.options import (
    MAX_BLOCK_ROWS,
    MIN_BLOCK_ROWS,
    TARGET_BLOCK_BYTES,
    PackOptions,
)
from penstock.components.packing.shuffle import (
    Permutation,
    cut_rows,
    decode_rows,
    encode_rows,
    joined,
    without_lists,
)
from penstock.components.sources.tfrecords.examples import Kinds, ReadShard, RowSplit
from penstock.components.tfrecord.manifest import Shard
from penstock.components.tfrecord.sharding import MIB, ShardPlan, plan_shards, split_dir

# pyarrow writes each buffer of a batch separately; the file object collects this number of bytes
# before it writes them.
_WRITTEN_BYTES = MIB
# A reading task collects this number of bytes of rows, then divides them among the packed shards.
_DIVIDED_BYTES = 64 * MIB
# Maximum number of shards of a split whose first rows are sampled to estimate the size of a packed
# row.
_SAMPLED_SHARDS = 4

# Parts of the files that reading tasks write, int64 [parts, 3]: a number, then begin and end in
# bytes. The number is that of the packed shard in a reading task's result, and that of the reading
# task in a `WriteTask`.
Parts = npt.NDArray[np.int64]


@dataclass(frozen=True)
class PackPlan:
    options: PackOptions
    stated: Mapping[str, StatedColumn] | None  # None infers columns and shapes from the rows
    kinds: Kinds  # Kind of each feature in the rows; empty if unknown
    rows: Mapping[str, int]
    shards: Mapping[str, ShardPlan]

    def first_rows(self, split: str) -> list[int]:
        """Returns the index of each packed shard's first row in a split, then the row count."""
        count = self.shards[split].shards
        return [self.rows[split] * index // count for index in range(count + 1)]


@dataclass(frozen=True)
class ReadTask:
    number: int  # index among all reading tasks
    split: str
    file: str
    shard: Shard
    first: int  # index of the shard's first row in the split
    read: ReadShard


@dataclass(frozen=True)
class WriteTask:
    """A packed shard to write, and where its rows are in the reading tasks' files."""

    split: str
    index: int
    parts: Parts


def plan_packing(
    splits: Sequence[RowSplit],
    options: PackOptions,
    stated: Mapping[str, StatedColumn] | None,
) -> PackPlan:
    """Decides the number of packed shards of each split: at most one per row."""
    known = {n: c.kind for n, c in stated.items()} if stated else splits[0].kinds
    kinds = frozenset(known.items())
    plans = {}
    for split in splits:
        size = int(_row_bytes(split, options, kinds) * split.rows)
        plans[split.name] = plan_shards(size, options.shards, rows=split.rows)
    return PackPlan(options, stated, kinds, {s.name: s.rows for s in splits}, plans)


def read_tasks(splits: Sequence[RowSplit]) -> list[ReadTask]:
    tasks: list[ReadTask] = []
    for split in splits:
        first = 0
        for file, shard in zip(split.files, split.shards, strict=True):
            tasks.append(ReadTask(len(tasks), split.name, file, shard, first, split.read))
            first += shard.rows
    return tasks


def _row_bytes(split: RowSplit, options: PackOptions, kinds: Kinds) -> float:
    facts = Facts()
    pairs = list(zip(split.files, split.shards, strict=True))
    for file, shard in pairs[:: -(-len(pairs) // _SAMPLED_SHARDS) or 1]:
        if batch := next(split.read(file, shard, kinds), None):
            facts.add(_kept(batch, options), options, split.name)
    images = {image.name: image for image in options.images}
    size = 0.0
    for name, seen in facts.columns.items():
        if name in images and seen.first is not None:
            size += math.prod(image_shape(images[name], seen.first))
        else:
            is_number = name in options.ids or seen.words(facts.rows)
            size += 4 if is_number else seen.mean_bytes()
    return size


def _kept(batch: pa.RecordBatch, options: PackOptions) -> pa.RecordBatch:
    if not options.columns:
        return batch
    kept = {n: batch.column(i) for i, n in enumerate(batch.schema.names) if n in options.columns}
    return pa.RecordBatch.from_arrays([*kept.values()], [*kept])


@dataclass(frozen=True)
class ReadRows:
    plan: PackPlan
    output: Output

    def __call__(self, task: ReadTask) -> tuple[Facts, Parts]:
        """Writes a shard's rows to a file, in parts that belong to one packed shard each.

        Returns facts about the rows, and the offsets of the parts.
        """
        facts = Facts()
        parts = []
        with self.output.new_try() as folder:
            path = folder / _rows_file(task.number)
            path.parent.mkdir()
            with naming(path), path.open("wb") as file:
                for shard, rows in self._rows_by_shard(task, facts):
                    begin = file.tell()
                    file.write(rows)
                    parts.append((shard, begin, file.tell()))
            self.output.take(folder)
        return facts, np.array(parts, np.int64).reshape(-1, 3)

    def _rows_by_shard(self, task: ReadTask, facts: Facts) -> Iterator[tuple[int, bytes]]:
        plan, options = self.plan, self.plan.options
        order = Permutation(plan.rows[task.split], seed=options.seed, name=task.split)
        starts = plan.first_rows(task.split)
        held: list[pa.RecordBatch] = []
        first = end = task.first
        for batch in task.read(task.file, task.shard, plan.kinds):
            batch = without_lists(batch)
            facts.add(batch, options, task.split)
            held.append(_kept(batch, options))
            end += batch.num_rows
            activity.advance(batch.num_rows)
            if sum(batch.nbytes for batch in held) >= _DIVIDED_BYTES:
                yield from _cut_by_shard(order.places(first, end), joined(held), starts)
                first, held = end, []
        if held:
            yield from _cut_by_shard(order.places(first, end), joined(held), starts)


def _rows_file(task: int) -> str:
    return f"{WORK_DIR}/rows-{task:05d}"


def _cut_by_shard(
    places: npt.NDArray[np.int64], rows: pa.RecordBatch, starts: Sequence[int]
) -> Iterator[tuple[int, bytes]]:
    shards = np.searchsorted(starts, places, side="right") - 1
    for shard, some, part in cut_rows(places - np.take(starts, shards), rows, shards):
        yield shard, encode_rows(some, part)


def plan_layout(
    facts: Facts, plan: PackPlan
) -> tuple[PackedLayout, dict[str, list[bytes]], dict[str, bytes]]:
    """Returns the layout, the dictionaries by column, and the vocabulary files by path."""
    options = plan.options
    shapes = {}
    for image in options.images:
        seen = facts.columns.get(image.name, ColumnFacts())
        shapes[image.name] = image_shape(image, seen.first or b"")
    columns = packed_columns(facts, options, plan.stated, shapes)
    of = {column.name: facts.columns.get(column.name, ColumnFacts()) for column in columns}
    size = sum(_stored_bytes(column, of[column.name]) for column in columns)
    rows = max(MIN_BLOCK_ROWS, min(MAX_BLOCK_ROWS, int(TARGET_BLOCK_BYTES / max(1, size))))
    files = {
        c.vocabulary: vocabulary(of[c.name], c.name, filled=c.filled)
        for c in columns
        if c.vocabulary
    }
    words = {c.name: of[c.name].words(facts.rows) for c in columns if c.storage == "words"}
    return PackedLayout(columns, options.block_rows or rows, options.seed), words, files


def _stored_bytes(column: PackedColumn, facts: ColumnFacts) -> float:
    if column.storage == "uint8":
        return column.width
    return 4 * column.width if column.storage in ("words", "int32") else facts.mean_bytes()


def write_tasks(
    plan: PackPlan, tasks: Sequence[ReadTask], parts: Sequence[Parts]
) -> Iterator[WriteTask]:
    for split in plan.rows:
        of_split = [
            np.insert(found, 1, task.number, axis=1)
            for task, found in zip(tasks, parts, strict=True)
            if task.split == split
        ]
        rows = np.concatenate(of_split) if of_split else np.empty((0, 4), np.int64)
        rows = rows[np.argsort(rows[:, 0], kind="stable")]
        count = plan.shards[split].shards
        bounds = np.searchsorted(rows[:, 0], np.arange(count + 1))
        for index in range(count):
            yield WriteTask(split, index, rows[bounds[index] : bounds[index + 1], 1:])


@dataclass
class WritePacked:
    """Runs `WriteTask`s: reads rows and vocabularies from the output, and writes shards to it."""

    plan: PackPlan
    layout: PackedLayout
    words: Mapping[str, list[bytes]]
    output: Output

    def __call__(self, task: WriteTask) -> tuple[str, Shard]:
        """Writes a packed shard; returns its split, and its entry in the manifest."""
        with self.output.new_try() as folder:
            shard = self._write(task, folder)
            self.output.take(folder)
        return task.split, shard

    def _write(self, task: WriteTask, folder: Path) -> Shard:
        first, end = self.plan.first_rows(task.split)[task.index : task.index + 2]
        name = packed_name(task.index, self.plan.shards[task.split].shards)
        path = folder / split_dir(task.split) / name
        path.parent.mkdir()
        with naming(path), path.open("wb", _WRITTEN_BYTES) as out:
            with pa.ipc.new_file(out, self.layout.schema) as file:
                for batch in self._blocks(task, end - first):
                    file.write_batch(self._maker.with_pixels(batch))
                    activity.advance(batch.num_rows)
            out.flush()
            os.fsync(out.fileno())
        content = hash_file(str(path))
        file_name = path.relative_to(folder).as_posix()
        return Shard(file_name, end - first, content.size, content.digest.hex())

    def _blocks(self, task: WriteTask, rows: int) -> Iterator[pa.RecordBatch]:
        """Yields the blocks of a packed shard; all its rows are in memory."""
        if not rows:
            return
        parts = [
            part
            for number, begin, end in task.parts.tolist()
            for part in decode_rows(self.output.read(_rows_file(number), begin, end))
        ]
        order = np.argsort(np.concatenate([places for places, _ in parts]))
        assert len(order) == rows, "each row comes once"
        stored = self._maker.stored(joined([batch for _, batch in parts]))
        for begin in range(0, rows, self.layout.block_rows):
            yield stored.take(pa.array(order[begin : begin + self.layout.block_rows]))

    @cached_property
    def _maker(self) -> BlockMaker:
        """Block maker; each process creates it only once, because vocabularies may be large."""
        ids = {
            column.name: self.output.read(column.vocabulary).split(b"\n")[:-1]
            for column in self.layout.columns
            if column.vocabulary
        }
        arrays = {n: pa.array(v, pa.large_binary()) for n, v in {**ids, **self.words}.items()}
        images = {image.name: image for image in self.plan.options.images}
        return BlockMaker(self.layout, arrays, images)
