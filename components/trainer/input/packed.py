"""Packed shards in, batches of tensors out, at a hundredth of the cost of parsing each row.

The chain for training, with what each link is for (us a row of 40 columns on one core):

    files      order shuffled every pass
    records    each a block of some thousand rows; files interleaved in threads (0.12)
    windows    some blocks of several files, decoded together and permuted as one (0.15)
    batches    cut from the endless stream of windows, across the seams between passes (0.03)
    features   columns split from the tensor of their type (0.08 for 40 columns)
    prefetch

A pass gives every row exactly once, no row is dropped, and every training batch is full, as
with `input_fn`, whose arguments and features these functions have, too.
"""

from collections.abc import Collection
from functools import partial
from typing import Any

import tensorflow as tf

from penstock.components.errors import UsageError
from penstock.components.packing.layout import PackedLayout
from penstock.components.trainer.input.common import (
    interleaved,
    parallel_map,
    paths_of,
    share_of_worker,
    tuned,
)
from penstock.components.trainer.input.files import InputFiles, Source
from penstock.components.trainer.input.options import InputOptions
from penstock.components.trainer.input.packed_decode import (
    decode_blocks,
    random_order,
    seeded_order,
    split_columns,
)
from penstock.components.trainer.input.packed_files import find_packed
from penstock.components.trainer.input.packed_mapped import can_map, mapped_batches
from penstock.components.trainer.input.read_errors import keeps_source

Sections = dict[str, tf.Tensor]

# A window is copied a few times: beyond this the copies cost several times more, because memory
# for them comes from the system anew. Rows were shuffled when they were packed, after all.
_MAX_WINDOW_BYTES = 16 * 2**20


@keeps_source
def packed_train_input_fn(
    source: Source,
    *,
    options: InputOptions,
    label: str | None = None,
    split: str = "train",
    columns: Collection[str] | None = None,
    stacked: bool = False,
    input_context: tf.distribute.InputContext | None = None,
) -> tf.data.Dataset:
    """Endless shuffled batches for training.

    Args:
        source: A folder that `penstock pack` or the Pack node wrote, local or remote, or
            `[FOLDER/Split-NAME/*]`, as in TFX's `fn_args.train_files`.
        options: Batch size, shuffling and speed. The window is rounded up to whole blocks.
        label: The feature that is the label; None gives features only.
        split: The split to take; that of a pattern is in the pattern.
        columns: Features to read besides the label; None reads all. Costs what these cost.
        stacked: Whether to leave the columns of a type together, see Returns. Saves the
            handling of many small tensors where there are many columns.
        input_context: This worker's place among several, as `tf.distribute` gives it: it then
            reads files of its own, and batches of `batch_size` / replicas rows.

    Returns:
        Dataset of `(features, label)`, or of `features` without a label. `features` maps names
        to tensors `[batch, *shape]` int64, float32, string, uint8 of images, int32 of ids, and
        `tf.SparseTensor` of lists. Stacked, it has `int64`, `float32`, `int32` and `string`
        tensors `[batch, width]` under these names instead, columns in the manifest's order,
        the label left out, and images and lists by their names.

    Raises:
        DataError: There are no rows, the shards differ from the manifest, or there are too few
            files for the workers.
        UsageError: It is not packed, there is no such split or label, or an option does not go
            with it.
    """
    files, layout, batch_size = _open(source, split, options, input_context)
    wanted = _wanted(layout, columns, label)
    deterministic = options.seed is not None
    if can_map(files, layout):
        batches = mapped_batches(files, layout, wanted, batch_size=batch_size, seed=options.seed)
    else:
        rows = _windows(files, layout, wanted, options)
        batches = rows.repeat().rebatch(batch_size, drop_remainder=True)
    return _finish(
        batches, layout, wanted, label, options, stacked=stacked, deterministic=deterministic
    )


@keeps_source
def packed_eval_input_fn(
    source: Source,
    *,
    options: InputOptions,
    label: str | None = None,
    split: str = "eval",
    columns: Collection[str] | None = None,
    stacked: bool = False,
    input_context: tf.distribute.InputContext | None = None,
) -> tf.data.Dataset:
    """One pass over every row in the same order each time, for evaluation.

    Arguments and errors are those of `packed_train_input_fn`. Nothing is dropped: only the very
    last batch is short where the rows do not divide.
    """
    files, layout, batch_size = _open(source, split, options, input_context)
    wanted = _wanted(layout, columns, label)
    records = interleaved(paths_of(files), tf.data.TFRecordDataset, options, deterministic=True)
    rows = parallel_map(
        records.batch(1),
        lambda blocks: decode_blocks(blocks, layout, wanted),
        deterministic=True,
    )
    batches = rows.rebatch(batch_size)
    return _finish(batches, layout, wanted, label, options, stacked=stacked, deterministic=True)


def _windows(
    files: InputFiles, layout: PackedLayout, wanted: Collection[str], options: InputOptions
) -> tf.data.Dataset:
    """All rows once, permuted within windows of some blocks of several files."""
    deterministic = options.seed is not None
    paths = paths_of(files).shuffle(len(files.files), seed=options.seed)
    records = interleaved(paths, tf.data.TFRecordDataset, options, deterministic=deterministic)
    if options.cache == "memory":
        # They come out of the cache in the order of the first pass: mix them anew.
        blocks = -(-files.rows // layout.block_rows) + len(files.files) if files.rows else 1024
        records = records.cache().shuffle(blocks, seed=options.seed)
    # The seeds are data, not the state of an op, so that windows may be permuted in parallel.
    seeds = tf.data.Dataset.random(seed=options.seed, rerandomize_each_iteration=True).batch(2)

    def decode(blocks: tf.Tensor, seed: tf.Tensor) -> Sections:
        order = partial(seeded_order, seed=seed) if deterministic else random_order
        return decode_blocks(blocks, layout, wanted, order)

    windows = tf.data.Dataset.zip((records.batch(_window_blocks(options, layout)), seeds))
    return parallel_map(windows, decode, deterministic=deterministic)


def _window_blocks(options: InputOptions, layout: PackedLayout) -> int:
    """Blocks whose rows are permuted together; two at least, so that blocks mix."""
    rows = min(options.shuffle_window_rows, _MAX_WINDOW_BYTES // max(1, layout.row_bytes))
    return max(2, -(-rows // layout.block_rows))


def _finish(
    batches: tf.data.Dataset,
    layout: PackedLayout,
    wanted: Collection[str],
    label: str | None,
    options: InputOptions,
    *,
    stacked: bool,
    deterministic: bool,
) -> tf.data.Dataset:
    """Make features of sections, split off the label and keep batches ready."""

    def features(sections: Sections) -> Any:
        found, target = split_columns(sections, layout, wanted, label, stacked=stacked)
        return found if label is None else (found, target)

    return tuned(batches.map(features), options, deterministic=deterministic)


def _open(
    source: Source,
    split: str,
    options: InputOptions,
    input_context: tf.distribute.InputContext | None,
) -> tuple[InputFiles, PackedLayout, int]:
    """This worker's files, what is in them, and the rows of one of its batches."""
    files, layout = find_packed(source, split=split)
    files, batch_size = share_of_worker(files, options, input_context)
    return files, layout, batch_size


def _wanted(
    layout: PackedLayout, columns: Collection[str] | None, label: str | None
) -> frozenset[str]:
    """The columns to read, the label among them."""
    names = [column.name for column in layout.columns]
    if label is not None and label not in names:
        raise UsageError(f"label {label!r} is not a feature; there are {', '.join(names)}")
    if unknown := sorted(set(columns or ()) - set(names)):
        raise UsageError(f"column {unknown[0]!r} is not packed; there are {', '.join(names)}")
    wanted = names if columns is None else columns
    return frozenset([*wanted, *([] if label is None else [label])])
