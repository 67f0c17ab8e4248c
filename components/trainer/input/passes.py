"""Training passes as datasets: the blocks and windows that `order.py` reckons, read from files.

A pass is planned in Python when it begins, which takes a millisecond or so; within it there are
TensorFlow ops only.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import tensorflow as tf

from penstock.components.errors import UsageError
from penstock.components.trainer.input.common import python_op
from penstock.components.trainer.input.files import InputFiles
from penstock.components.trainer.input.options import InputOptions
from penstock.components.trainer.input.order import Order, PassPlan
from penstock.components.trainer.input.start import InputStart

ENDLESS = np.iinfo(np.int64).max
# Rows of a pass that are numbered: the pass takes the rest of a window's or a row's 64 bits.
_ROW_BITS = 40
# Shares of a worker that a block is at most, so that cuts between blocks make even shares.
_LEAST_BLOCKS = 64


@dataclass(frozen=True)
class Passes:
    """The passes of one worker over the rows of some files.

    Attributes:
        files: All files, those of other workers included.
        order: Of the rows.
        step: Batches that were given before.
        step_rows: This worker's rows of a batch.
    """

    files: InputFiles
    order: Order
    step: int
    step_rows: int

    @cached_property
    def begin(self) -> tuple[int, int]:
        """The pass to begin with, and the row in it."""
        return self.order.locate(self.step * self.step_rows) if self.step else (0, 0)

    @property
    def numbers(self) -> tf.data.Dataset:
        """int64, the pass to begin with and all after it."""
        return tf.data.Dataset.range(self.begin[0], ENDLESS)

    def read(self, number: tf.Tensor, block: Callable[..., tf.data.Dataset]) -> "PassBlocks":
        """What is to be read of a pass, int64; `block` makes the dataset of a file's blocks."""
        kinds = [tf.int64] * 5
        pieces, lanes, sizes, window, drop = python_op(self._plan, [number], kinds)
        pieces = tf.ensure_shape(pieces, [None, 3])
        lanes = tf.ensure_shape(lanes, [self.order.lanes])
        paths, compressions = tf.constant(self.files.files), tf.constant(self.files.compressions)

        def piece(row: tf.Tensor) -> tf.data.Dataset:
            file = block(tf.gather(paths, row[0]), tf.gather(compressions, row[0]))
            return file.skip(row[1]).take(row[2])

        blocks = tf.data.Dataset.from_tensor_slices(
            tf.RaggedTensor.from_row_lengths(pieces, lanes)
        ).interleave(
            lambda lane: tf.data.Dataset.from_tensor_slices(lane).flat_map(piece),
            cycle_length=self.order.lanes,
            num_parallel_calls=tf.data.AUTOTUNE,
            deterministic=True,
        )
        place = [tf.ensure_shape(scalar, []) for scalar in (window, drop)]
        return PassBlocks(blocks, tf.ensure_shape(sizes, [None]), number, *place)

    def seeds(self, number: tf.Tensor, first: Any, drop: Any) -> tf.data.Dataset:
        """`(seed, rows to drop)` of each window of a pass: int64 [2], and 0 but of the first."""
        windows = tf.data.Dataset.range(first, ENDLESS)
        return windows.map(
            lambda window: (self.seed(number, window), tf.where(window == first, drop, 0))
        )

    def seed(self, number: tf.Tensor, item: Any) -> tf.Tensor:
        """int64 [2], a seed for one item of a pass."""
        return self.seed_of(numbered(number, item))

    def seed_of(self, item: tf.Tensor) -> tf.Tensor:
        """int64 [2], a seed for a thing that has a number of its own, int64."""
        return tf.stack([tf.constant(self.order.seed, tf.int64), item])

    def begun(self, number: tf.Tensor) -> tf.Tensor:
        """int64, rows of a pass that were given before: 0 but of the first."""
        first, row = self.begin
        return tf.where(number == first, tf.constant(row, tf.int64), 0)

    def _plan(self, number: np.int64) -> list[np.ndarray]:
        """A plan as arrays: pieces, their number by lane, sizes of windows, the first, drop."""
        first, row = self.begin
        if number == first and row:
            plan = self.order.plan_from(first, row)
        else:
            plan = self.order.plan(int(number))
        return [
            np.array([p for lane in plan.lanes for p in lane], np.int64).reshape(-1, 3),
            np.array([len(lane) for lane in plan.lanes], np.int64),
            self._sizes(plan),
            np.array(plan.window, np.int64),
            np.array(plan.drop, np.int64),
        ]

    def _sizes(self, plan: PassPlan) -> np.ndarray:
        """Rows of a pass's windows, in turn; a first one of `ahead` rows is not to be used."""
        if not plan.ahead:
            return np.array([self.order.window], np.int64)
        windows = 2 + sum(self.order.file_rows or ()) // self.order.window
        return np.array([plan.ahead] + [self.order.window] * windows, np.int64)


@dataclass(frozen=True)
class PassBlocks:
    """The blocks of a pass, and where its windows begin.

    Attributes:
        blocks: Dataset of what a file's dataset gave, in order.
        sizes: int64 [n], rows of the windows, the last again and again.
        number: int64, of the pass.
        window: int64, the number of the first window.
        drop: int64, rows of it that were given before.
    """

    blocks: tf.data.Dataset
    sizes: tf.Tensor
    number: tf.Tensor
    window: tf.Tensor
    drop: tf.Tensor

    @property
    def windows(self) -> tf.data.Dataset:
        """The blocks' rows, joined and cut into windows."""
        ahead = tf.cast(tf.size(self.sizes) > 1, tf.int64)
        return self.blocks.rebatch(self.sizes).skip(ahead)


def open_passes(
    files: InputFiles,
    options: InputOptions,
    *,
    block_rows: int | None = None,
    context: tf.distribute.InputContext | None,
    start: InputStart | None,
) -> Passes:
    """Returns the passes of a worker, from where a training begins.

    Args:
        files: All files, those of other workers included.
        options: Batch size, window, seed, files to read at a time.
        block_rows: Rows that a file hands over at a time; None takes the options'. Fewer if
            several workers need even shares.
        context: This worker's place among several.
        start: Where to begin; None begins at the beginning.

    Raises:
        UsageError: The input is another one than at the start, or several workers have a cache or
            no common seed.
    """
    block_rows = block_rows or options.block_rows
    workers = context.num_input_pipelines if context else 1
    if workers > 1 and start is None and options.seed is None:
        raise UsageError(f"{workers} workers need a seed that is the same for all, got None")
    start = start or InputStart()
    if workers > 1 and options.cache != "none":
        raise UsageError(
            f"cache {options.cache!r} is for one worker, there are {workers}: use cache 'none'"
        )
    rows = files.counted() if start.step or workers > 1 else files.shard_rows
    if workers > 1:
        block_rows = max(1, min(block_rows, sum(rows or ()) // (workers * _LEAST_BLOCKS)))
    order = Order(
        seed=start.seed if options.seed is None else options.seed,
        file_bytes=files.sizes,
        lanes=min(options.interleave_files, len(files.files)),
        block_rows=block_rows,
        window=options.shuffle_window_rows,
        file_rows=rows,
        workers=workers,
        worker=context.input_pipeline_id if context else 0,
    )
    start.hold({**order.to_dict(), "batch": options.batch_size, "cache": options.cache})
    return Passes(files, order, start.step, options.batch_size // workers)


def numbered(number: tf.Tensor, item: Any) -> tf.Tensor:
    """int64, another for each item of each pass."""
    return tf.bitwise.left_shift(number, _ROW_BITS) + item


def seeded_order(count: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
    """int32 [count], the numbers from 0 on in an order that int64 [2] decides.

    A radix sort by random digits: 30 ns a number, where `tf.argsort` of random keys takes 80 and
    `tf.random.shuffle`, whose order depends on the calls before, 20.
    """
    keys = tf.random.stateless_uniform([count], seed, minval=None, maxval=None, dtype=tf.int32)
    order = tf.range(tf.cast(count, tf.int32))
    for shift in (0, 8):
        digits = tf.bitwise.bitwise_and(tf.bitwise.right_shift(keys, shift), 255)
        order = tf.concat(tf.dynamic_partition(order, digits, 256), 0)
    return order


def seeded_shuffle(data: tf.data.Dataset, buffer: Any, seed: tf.Tensor) -> tf.data.Dataset:
    """`data` shuffled in a way that int64 [2] decides alone, without TensorFlow's global seed."""
    shapes, types = (
        getattr(tf.compat.v1.data, name)(data) for name in ("get_output_shapes", "get_output_types")
    )
    variant = tf.raw_ops.ShuffleDataset(
        input_dataset=tf.data.experimental.to_variant(data),
        buffer_size=tf.cast(buffer, tf.int64),
        seed=seed[0],
        seed2=seed[1],
        output_types=tf.nest.flatten(types),
        output_shapes=tf.nest.flatten(shapes),
        reshuffle_each_iteration=False,
    )
    return tf.data.experimental.from_variant(variant, data.element_spec)
