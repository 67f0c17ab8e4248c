"""Packed shards in, batches of tensors out, at a hundredth of the cost of parsing each row.

The chain, with what each link is for (us a row of 40 columns on one core):

    order      numbers of rows: blocks of several files, permuted in windows (0.02)
    groups     the rows of some batches, picked right out of the mapped files (0.1)
    features   columns split from the array of their type, texts looked up in the blocks'
               dictionaries
    batches    cut from groups without a copy
    prefetch

A pass gives every row exactly once, and every training batch is full, as with
`train_input_fn`, whose arguments and features these functions have, too.
"""

from collections.abc import Callable, Collection
from typing import Any

import numpy as np
import tensorflow as tf

from penstock.components.errors import UsageError
from penstock.components.packing.layout import PackedLayout
from penstock.components.trainer.input.cache import check_memory
from penstock.components.trainer.input.common import (
    Label,
    apart,
    names_of,
    parallel_map,
    python_op,
    rows_of_replica,
    share_of_worker,
    tuned,
)
from penstock.components.trainer.input.facts import facts_of
from penstock.components.trainer.input.files import InputFiles, InputSource
from penstock.components.trainer.input.options import InputOptions
from penstock.components.trainer.input.packed_decode import WORDS, joined_cells, split_columns
from penstock.components.trainer.input.packed_files import find_packed
from penstock.components.trainer.input.packed_order import RowOrder
from penstock.components.trainer.input.packed_rows import PackedRows, Picked
from penstock.components.trainer.input.passes import ENDLESS, open_passes
from penstock.components.trainer.input.read_errors import keeps_source
from penstock.components.trainer.input.start import InputStart
from penstock.components.trainer.utilisation.record import InputFacts

# Rows that are picked together: memory for more comes from the system anew every time.
_MAX_GROUP_BYTES = 4 * 2**20


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
    passes = open_passes(
        files,
        options,
        block_rows=layout.block_rows,
        window=options.shuffle_window_rows,
        context=input_context,
        start=start,
    )
    rows = _open(files, layout, wanted, options)
    order = RowOrder(passes, rows.first_numbers)
    batch_size = rows_of_replica(options, input_context)
    group = _group_batches(rows, options, batch_size) * batch_size

    def pick(begin: np.int64) -> Picked:
        return rows.pick(order.numbers(int(begin), group))

    begins = tf.data.Dataset.range(passes.step * passes.step_rows, ENDLESS - group, group)
    columns_of = _columns(rows, wanted, label, stacked=stacked)
    groups = parallel_map(begins, lambda begin: columns_of(pick, begin, group))
    if group > batch_size:
        groups = groups.flat_map(lambda *found: _cut(found, batch_size))
    return tuned(groups, options)


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
    rows = _open(files, layout, wanted, options)
    numbers = rows.all_numbers()

    def pick(begin: np.int64) -> Picked:
        return rows.pick(numbers[begin : begin + batch_size])

    begins = tf.data.Dataset.range(0, len(numbers), batch_size)
    columns_of = _columns(rows, wanted, label, stacked=stacked)
    return tuned(parallel_map(begins, lambda begin: columns_of(pick, begin, None)), options)


def packed_input_facts(
    source: InputSource, *, options: InputOptions, split: str = "train"
) -> InputFacts:
    """The facts of what `packed_train_input_fn` reads, for advice; arguments and errors are its."""
    found, layout = find_packed(source, split=split)
    fixed = not any(column.storage == "list" for column in layout.columns)
    return facts_of(found, options, "packed", columns=len(layout.columns), fixed_length=fixed)


def _open(
    files: InputFiles, layout: PackedLayout, wanted: Collection[str], options: InputOptions
) -> PackedRows:
    """The rows, read into memory where the options say so."""
    if options.cache == "memory":
        stored = sum(files.sizes)
        what = f"packed shards of {stored:,} bytes"
        check_memory(stored, what, "use cache 'none': local shards are in the page cache anyway")
    return PackedRows(files, layout, wanted, in_memory=options.cache == "memory")


def _group_batches(rows: PackedRows, options: InputOptions, batch_size: int) -> int:
    """Batches whose rows are picked together: those of a window, unless rows are large."""
    if any(column.storage == "list" for section in rows.sections for column in section.columns):
        return 1  # sparse tensors are not cut without a copy
    most = min(options.shuffle_window_rows, _MAX_GROUP_BYTES // max(1, rows.row_bytes))
    return max(1, most // batch_size)


def _columns(
    rows: PackedRows, wanted: Collection[str], label: Label, *, stacked: bool
) -> Callable[..., Any]:
    """A function that makes features, and the label, of what a function picks of `rows`."""

    def columns_of(pick: Callable[[np.int64], Picked], begin: tf.Tensor, count: int | None) -> Any:
        kinds = [tf.as_dtype(section.dtype) for section in rows.sections]
        *picked, places, dictionaries = python_op(pick, [begin], [*kinds, tf.int32, tf.string])
        sections = {
            section.name: tf.ensure_shape(part, [count, section.width])
            for section, part in zip(rows.sections, picked, strict=True)
        }
        if "cell" in sections:
            places, dictionaries = (tf.ensure_shape(t, [None]) for t in (places, dictionaries))
            sections["cell"], sections[WORDS] = joined_cells(sections["cell"], places, dictionaries)
        labels = names_of(label, wanted)
        found, target = split_columns(sections, rows.layout, wanted, labels, stacked=stacked)
        return apart({**found, **target}, label)

    return columns_of


def _cut(found: tuple[Any, ...], batch_size: int) -> tf.data.Dataset:
    """The batches of a group; where they are aligned, not a byte is copied."""
    batches = tf.nest.map_structure(
        lambda part: tf.reshape(part, [-1, batch_size, *part.shape[1:]]), found
    )
    return tf.data.Dataset.from_tensor_slices(batches if len(batches) > 1 else batches[0])


def _wanted(layout: PackedLayout, columns: Collection[str] | None, label: Label) -> frozenset[str]:
    """The columns to read, the label among them."""
    names = [column.name for column in layout.columns]
    labels = names_of(label, names)
    if unknown := sorted(set(columns or ()) - set(names)):
        raise UsageError(f"column {unknown[0]!r} is not packed; there are {', '.join(names)}")
    wanted = names if columns is None else columns
    return frozenset([*wanted, *labels])
