"""Reads training passes as datasets of the blocks and windows that `readers/order.py` plans.

Each pass is planned in Python when it begins, which takes about a millisecond. After that, Python
only looks up each file's path and checks that the file is unchanged; TensorFlow ops do the rest.
"""

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import tensorflow as tf

from penstock.components.errors import DataError, UsageError, counted
from penstock.components.readers.order import ROW_BITS, Order, PassPlan
from penstock.components.trainer.input.common import path_op, python_op
from penstock.components.trainer.input.files import InputFiles
from penstock.components.trainer.input.options import InputOptions

ENDLESS = np.iinfo(np.int64).max
# Dataset of the records or windows of a pass; index of the first window; number of rows to drop
# from that window.
Reading: TypeAlias = tuple[tf.data.Dataset, tf.Tensor, tf.Tensor]


@dataclass
class InputStart:
    """Position in the input at which a training begins or resumes, for `Input.train`.

    Attributes:
        step: Number of batches already read; the input continues after them.
        seed: Seed of the order, used if the options have no seed.
        order: All facts that determine the rows and their order, by name; `Input.train` sets it.
    """

    step: int = 0
    seed: int = field(default_factory=lambda: secrets.randbits(62))
    order: dict[str, Any] | None = None

    def hold(self, order: Mapping[str, Any]) -> None:
        """Stores the facts that determine rows and order, or compares them with the stored ones.

        Raises:
            UsageError: The input has changed: a resumed training would read different rows, or some
                rows twice and others never. The message names the changes.
        """
        if self.order is not None and self.order != order:
            changed = [
                _change(name, self.order.get(name), order.get(name))
                for name in sorted({*self.order, *order})
                if self.order.get(name) != order.get(name)
            ]
            raise UsageError(
                f"the input differs from what was read up to step {self.step}: "
                f"{'; '.join(changed)}; restore it, or remove the checkpoints"
            )
        self.order = dict(order)


def _change(name: str, before: Any, now: Any) -> str:
    if name != "shards":
        return f"{name} was {before}, is {now}"
    changed = [shard for shard, digest in now if [shard, digest] not in (before or ())]
    if not changed:
        return f"there were {counted(len(before), 'shard')}, there are {len(now)}"
    return f"{changed[0]} has other content ({len(changed)} of {len(now)} shards)"


@dataclass(frozen=True)
class Passes:
    """The passes of one share over some files, which also contain other shares' rows."""

    files: InputFiles
    order: Order
    step: int  # number of batches read before this run
    step_rows: int  # number of rows of the share in a batch

    @cached_property
    def begin(self) -> tuple[int, int]:
        """Index of the first pass to read, and of the first row in it."""
        return self.order.locate(self.step * self.step_rows) if self.step else (0, 0)

    @property
    def numbers(self) -> tf.data.Dataset:
        return tf.data.Dataset.range(self.begin[0], ENDLESS)

    def read(self, number: tf.Tensor, *, batched: bool) -> Reading:
        """Returns the serialised records of a pass; with `batched`, one window per element."""
        pieces, lanes, sizes, window, drop = python_op(self._plan, [number], [tf.int64] * 5)
        pieces = tf.ensure_shape(pieces, [None, 3])
        lanes = tf.ensure_shape(lanes, [self.order.lanes])
        place = path_op(self.files)

        def piece(row: tf.Tensor) -> tf.data.Dataset:
            records = tf.data.TFRecordDataset(*place(row[0])).skip(row[1]).take(row[2])
            return records.batch(self.order.block_rows) if batched else records

        blocks = tf.data.Dataset.from_tensor_slices(
            tf.RaggedTensor.from_row_lengths(pieces, lanes)
        ).interleave(
            lambda lane: tf.data.Dataset.from_tensor_slices(lane).flat_map(piece),
            cycle_length=self.order.lanes,
            num_parallel_calls=tf.data.AUTOTUNE,
            deterministic=True,
        )
        if batched:
            sizes = tf.ensure_shape(sizes, [None])
            blocks = blocks.rebatch(sizes).skip(tf.cast(tf.size(sizes) > 1, tf.int64))
        return blocks, tf.ensure_shape(window, []), tf.ensure_shape(drop, [])

    def seeds(self, number: tf.Tensor, first: Any, drop: Any) -> tf.data.Dataset:
        """Returns (seed, rows to drop) of windows from `first` on: `drop` for `first`, then 0."""
        windows = tf.data.Dataset.range(first, ENDLESS)
        return windows.map(
            lambda window: (self.seed(number, window), tf.where(window == first, drop, 0))
        )

    def seed(self, number: tf.Tensor, item: Any) -> tf.Tensor:
        """Returns a seed, int64 [2], for item number `item` of a pass, for example a window."""
        unique = tf.bitwise.left_shift(number, ROW_BITS) + item
        return tf.stack([tf.constant(self.order.seed, tf.int64), unique])

    def begun(self, number: tf.Tensor) -> tf.Tensor:
        """Returns how many rows of a pass were read before this run; 0 for later passes."""
        first, row = self.begin
        return tf.where(number == first, tf.constant(row, tf.int64), 0)

    def _plan(self, number: np.int64) -> list[np.ndarray]:
        """Returns pieces, their number per lane, window sizes, first window and rows to drop."""
        first, row = self.begin
        if number == first and row:
            plan = self.order.plan_from(first, row)
        else:
            plan = self.order.plan(int(number))
        pieces = [piece for lane in plan.lanes for piece in lane]
        return [
            np.array(pieces, np.int64).reshape(-1, 3),
            np.array([len(lane) for lane in plan.lanes], np.int64),
            self._sizes(plan),
            np.array(plan.window, np.int64),
            np.array(plan.drop, np.int64),
        ]

    def _sizes(self, plan: PassPlan) -> np.ndarray:
        """Returns window sizes; if `plan.ahead` is above 0, it comes first, and `read` skips it."""
        if not plan.ahead:
            return np.array([self.order.window], np.int64)
        windows = 2 + sum(self.order.file_rows or ()) // self.order.window
        return np.array([plan.ahead] + [self.order.window] * windows, np.int64)


def open_passes(
    files: InputFiles,
    options: InputOptions,
    *,
    block_rows: int | None = None,
    context: tf.distribute.InputContext | None,
    start: InputStart | None,
) -> list[Passes]:
    """Returns the passes of each share that a worker reads, from `start` on."""
    workers = context.num_input_pipelines if context else 1
    worker = context.input_pipeline_id if context else 0
    if workers > 1 and start is None and options.seed is None:
        raise UsageError(f"{workers} workers need a seed that is the same for all, got None")
    is_held, start = start is not None, start or InputStart()
    shares = options.shares or (start.order or {}).get("shares") or workers
    _check_shares(shares, workers, options)
    rows = files.counted() if start.step or shares > 1 else files.shard_rows
    if shares > sum(rows or [shares]):
        raise DataError(
            f"{files.files[0]} and its like have {sum(rows or ())} rows for "
            f"{counted(shares, 'share')}: use fewer workers"
        )
    orders = [
        Order(
            seed=start.seed if options.seed is None else options.seed,
            file_bytes=files.sizes,
            lanes=min(options.interleave_files, len(files.files)),
            block_rows=block_rows or options.block_rows,
            window=options.shuffle_window_rows,
            file_rows=rows,
            shares=shares,
            share=share,
        )
        for share in range(worker * shares // workers, (worker + 1) * shares // workers)
    ]
    if is_held:
        reading = {"batch": options.batch_size, "cache": options.cache}
        start.hold({**orders[0].to_dict(), **reading, "shards": files.contents()})
    step_rows = options.batch_size // shares
    return [Passes(files, order, start.step, step_rows) for order in orders]


def _check_shares(shares: int, workers: int, options: InputOptions) -> None:
    if shares % workers:
        fitting = ", ".join(str(n) for n in range(1, shares + 1) if shares % n == 0)
        raise UsageError(
            f"a training of {counted(shares, 'share')} runs on {fitting} workers, got {workers}: "
            "start as many, or set shares when a training begins"
        )
    if options.batch_size % shares:
        raise UsageError(
            f"batch_size must be a multiple of the {shares} shares, got {options.batch_size}"
        )
    if shares > 1 and options.cache != "none":
        raise UsageError(
            f"cache {options.cache!r} is for one worker, there are {shares}: use cache 'none'"
        )


def taken_in_turn(streams: Sequence[tf.data.Dataset], count: int) -> tf.data.Dataset:
    """Returns a dataset that takes `count` elements from each stream in turn, endlessly."""
    if len(streams) == 1:
        return streams[0]
    turns = tf.data.Dataset.range(ENDLESS).map(lambda n: n // count % len(streams))
    return tf.data.Dataset.choose_from_datasets(list(streams), turns)


def seeded_order(count: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
    """Returns int32 [count], a permutation of 0 to count - 1 determined by a seed, int64 [2].

    It is a radix sort by random digits: 30 ns per number. `tf.argsort` of random keys takes 80 ns;
    `tf.random.shuffle` takes 20 ns, but its result depends on earlier calls.
    `tensorflow_permutation` of `readers/order.py` computes the same without TensorFlow.
    """
    keys = tf.random.stateless_uniform([count], seed, minval=None, maxval=None, dtype=tf.int32)
    order = tf.range(tf.cast(count, tf.int32))
    for shift in (0, 8):
        digits = tf.bitwise.bitwise_and(tf.bitwise.right_shift(keys, shift), 255)
        order = tf.concat(tf.dynamic_partition(order, digits, 256), 0)
    return order


def seeded_shuffle(data: tf.data.Dataset, buffer: Any, seed: tf.Tensor) -> tf.data.Dataset:
    """Shuffles `data` by a seed, int64 [2], independently of TensorFlow's global seed."""
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
