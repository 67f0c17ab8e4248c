"""Packed shards in, batches of tensors out, at a hundredth of the cost of parsing each row.

The chain for training, with what each link is for (us a row of 40 columns on one core):

    files      order shuffled every pass
    records    each a block of some thousand rows; files interleaved in threads (0.12)
    windows    some blocks of several files, decoded together and permuted as one (0.15)
    batches    cut from the endless stream of windows, across the seams between passes (0.03)
    features   columns split from the tensor of their type (0.08 for 40 columns)
    prefetch

A pass gives every row exactly once, and every training batch is full, as with
`train_input_fn`, whose arguments and features these functions have, too.
"""

from collections.abc import Collection
from typing import Any

import tensorflow as tf

from penstock.components.errors import UsageError
from penstock.components.packing.layout import PackedLayout
from penstock.components.trainer.input.cache import check_memory
from penstock.components.trainer.input.common import (
    Label,
    apart,
    interleaved,
    names_of,
    parallel_map,
    paths_of,
    rows_of_replica,
    share_of_worker,
    tuned,
)
from penstock.components.trainer.input.files import InputFiles, InputSource
from penstock.components.trainer.input.options import InputOptions
from penstock.components.trainer.input.packed_decode import (
    decode_blocks,
    split_columns,
)
from penstock.components.trainer.input.packed_files import find_packed
from penstock.components.trainer.input.packed_mapped import can_map, mapped_batches
from penstock.components.trainer.input.passes import (
    Passes,
    open_passes,
    seeded_order,
    seeded_shuffle,
)
from penstock.components.trainer.input.read_errors import keeps_source
from penstock.components.trainer.input.start import InputStart

Sections = dict[str, tf.Tensor]

# A window is copied a few times: beyond this the copies cost several times more, because memory
# for them comes from the system anew. Rows were shuffled when they were packed, after all.
_MAX_WINDOW_BYTES = 16 * 2**20


@keeps_source
def packed_train_input_fn(
    source: InputSource,
    *,
    options: InputOptions,
    label: Label = None,
    split: str = "train",
    columns: Collection[str] | None = None,
    stacked: bool = False,
    input_context: tf.distribute.InputContext | None = None,
    start: InputStart | None = None,
) -> tf.data.Dataset:
    """Endless shuffled batches for training.

    Args:
        source: A folder that `penstock pack` or the Pack node wrote, local or remote, or
            `[FOLDER/Split-NAME/*]`, as in TFX's `fn_args.train_files`.
        options: Batch size, shuffling and speed. The window is rounded up to whole blocks.
        label: The feature that is the label, or several: the label is then a mapping by name.
            None gives features only.
        split: The split to take; that of a pattern is in the pattern.
        columns: Features to read besides the label; None reads all. Costs what these cost.
        stacked: Whether to leave the columns of a type together, see Returns. Saves the
            handling of many small tensors where there are many columns.
        input_context: This worker's place among several, as `tf.distribute` gives it: it then
            reads rows of its own, and batches of `batch_size` / replicas rows.
        start: The batches that were given before, to go on after them; see `train`.

    Returns:
        Dataset of `(features, label)`, or of `features` without a label. `features` maps names
        to tensors `[batch, *shape]` int64, float32, string, uint8 of images, int32 of ids, and
        `tf.SparseTensor` of lists. Stacked, it has `int64`, `float32`, `int32` and `string`
        tensors `[batch, width]` under these names instead, columns in the manifest's order,
        the label left out, and images and lists by their names.

    Raises:
        DataError: There are no rows, or the shards differ from the manifest.
        UsageError: It is not packed, there is no such split or label, an option does not go with
            it, the cache does not fit, or the input is another one than at the start.
    """
    files, layout = find_packed(source, split=split)
    wanted = _wanted(layout, columns, label)
    if start is not None and start.order is not None:
        is_mapped = start.order["block"] == 1  # whatever memory is free this time
    else:
        is_mapped = can_map(files, layout)
    passes = open_passes(
        files,
        options,
        block_rows=1 if is_mapped else layout.block_rows,
        window=_window_blocks(options, layout),
        window_in_blocks=True,
        can_cut_blocks=False,
        context=input_context,
        start=start,
    )
    batch_size = rows_of_replica(options, input_context)
    if is_mapped:
        batches = mapped_batches(files, layout, wanted, passes, batch_size=batch_size)
    else:
        rows = _rows(files, layout, wanted, options, passes)
        batches = rows.rebatch(batch_size, drop_remainder=True)
    return _finish(batches, layout, wanted, label, options, stacked=stacked)


@keeps_source
def packed_eval_input_fn(
    source: InputSource,
    *,
    options: InputOptions,
    label: Label = None,
    split: str = "eval",
    columns: Collection[str] | None = None,
    stacked: bool = False,
    input_context: tf.distribute.InputContext | None = None,
) -> tf.data.Dataset:
    """One pass over every row in the same order each time, for evaluation.

    Arguments and errors are those of `packed_train_input_fn`. Nothing is dropped: only the very
    last batch is short where the rows do not divide.
    """
    files, layout = find_packed(source, split=split)
    wanted = _wanted(layout, columns, label)
    files, batch_size = share_of_worker(files, options, input_context)
    records = interleaved(paths_of(files), tf.data.TFRecordDataset, options)
    rows = parallel_map(records.batch(1), lambda blocks: decode_blocks(blocks, layout, wanted))
    return _finish(rows.rebatch(batch_size), layout, wanted, label, options, stacked=stacked)


def _rows(
    files: InputFiles,
    layout: PackedLayout,
    wanted: Collection[str],
    options: InputOptions,
    passes: Passes,
) -> tf.data.Dataset:
    """The rows of all passes, permuted within windows of some blocks of several files."""
    if options.cache == "memory":
        stored = sum(files.sizes)
        what = f"packed shards of {stored:,} bytes"
        check_memory(stored, what, "use cache 'none': local shards are in the page cache anyway")
        records = interleaved(paths_of(files), tf.data.TFRecordDataset, options).cache()
        blocks = sum(-(-rows // layout.block_rows) for rows in files.counted())

    def windows(number: tf.Tensor) -> tf.data.Dataset:
        if options.cache == "memory":
            # They come out of the cache in one order: mixed anew.
            found = seeded_shuffle(records, blocks, passes.seed(number, 0))
            seeds = passes.seeds(number, tf.constant(0, tf.int64), tf.constant(0, tf.int64))
        else:
            read = passes.read(number, tf.data.TFRecordDataset)
            found, seeds = read.blocks, passes.seeds(number, read.window, read.drop)
        return tf.data.Dataset.zip((found.batch(passes.order.window), seeds))

    def decode(blocks: tf.Tensor, seed_and_drop: tuple[tf.Tensor, tf.Tensor]) -> Sections:
        seed, drop = seed_and_drop
        return decode_blocks(blocks, layout, wanted, lambda rows: seeded_order(rows, seed)[drop:])

    rows = parallel_map(passes.numbers.flat_map(windows), decode)
    if options.cache == "memory" and passes.begin[1]:
        rows = _without_first(rows, passes.begin[1])
    return rows


def _without_first(windows: tf.data.Dataset, rows: int) -> tf.data.Dataset:
    """Windows without the first rows of all; a window without any left is left out."""

    def cut(left: tf.Tensor, window: Sections) -> tuple[tf.Tensor, Sections]:
        count = tf.shape(tf.nest.flatten(window)[0], tf.int64)[0]
        drop = tf.minimum(left, count)
        return left - drop, {name: tensor[drop:] for name, tensor in window.items()}

    return windows.scan(tf.constant(rows, tf.int64), cut)


def _window_blocks(options: InputOptions, layout: PackedLayout) -> int:
    """Blocks whose rows are permuted together; two at least, so that blocks mix."""
    rows = min(options.shuffle_window_rows, _MAX_WINDOW_BYTES // max(1, layout.row_bytes))
    return max(2, -(-rows // layout.block_rows))


def _finish(
    batches: tf.data.Dataset,
    layout: PackedLayout,
    wanted: Collection[str],
    label: Label,
    options: InputOptions,
    *,
    stacked: bool,
) -> tf.data.Dataset:
    """Make features of sections, split off the label and keep batches ready."""

    def features(sections: Sections) -> Any:
        apart_names = names_of(label, wanted)
        found, labels = split_columns(sections, layout, wanted, apart_names, stacked=stacked)
        return apart({**found, **labels}, label)

    return tuned(batches.map(features), options)


def _wanted(layout: PackedLayout, columns: Collection[str] | None, label: Label) -> frozenset[str]:
    """The columns to read, the label among them."""
    names = [column.name for column in layout.columns]
    labels = names_of(label, names)
    if unknown := sorted(set(columns or ()) - set(names)):
        raise UsageError(f"column {unknown[0]!r} is not packed; there are {', '.join(names)}")
    wanted = names if columns is None else columns
    return frozenset([*wanted, *labels])
