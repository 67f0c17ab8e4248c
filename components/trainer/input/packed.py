"""Packed shards in, batches of tensors out, at a hundredth of the cost of parsing each row.

The chain, with what each link is for (us a row of 40 columns on one core):

    order      numbers of rows: blocks of several files, permuted in windows (0.02)
    groups     the rows of some batches, picked right out of the mapped files (0.1)
    batches    cut from groups without a copy
    features   columns split from the tensor of their type, and texts looked up in the blocks'
               dictionaries (0.08 for 32 columns of numbers)
    prefetch

A pass gives every row exactly once, and every training batch is full, as with
`train_input_fn`, whose arguments and features these functions have, too.
"""

from collections.abc import Callable, Collection
from typing import Any

import numpy as np
import numpy.typing as npt
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
from penstock.components.trainer.input.files import InputFiles, InputSource
from penstock.components.trainer.input.options import InputOptions
from penstock.components.trainer.input.packed_decode import WORDS, joined_cells, split_columns
from penstock.components.trainer.input.packed_files import find_packed
from penstock.components.trainer.input.packed_order import RowOrder
from penstock.components.trainer.input.packed_rows import PackedRows
from penstock.components.trainer.input.passes import ENDLESS, open_passes
from penstock.components.trainer.input.read_errors import keeps_source
from penstock.components.trainer.input.start import InputStart

Sections = dict[str, tf.Tensor]

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
    first = passes.step * passes.step_rows
    begins = tf.data.Dataset.range(first, ENDLESS - group, group)
    batches = _batches(begins, lambda begin: order.numbers(begin, group), rows, batch_size, group)
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
    rows = _open(files, layout, wanted, options)
    numbers = rows.all_numbers()
    group = _group_batches(rows, options, batch_size) * batch_size
    begins = tf.data.Dataset.range(0, len(numbers), group)
    batches = _batches(begins, lambda begin: numbers[begin:][:group], rows, batch_size, group)
    return _finish(batches, layout, wanted, label, options, stacked=stacked)


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
    """Batches whose rows are picked together: a window of them, unless rows are large."""
    most = min(options.shuffle_window_rows, _MAX_GROUP_BYTES // max(1, rows.row_bytes))
    return max(1, most // batch_size)


def _batches(
    begins: tf.data.Dataset,
    numbers: Callable[[int], npt.NDArray[np.int64]],
    rows: PackedRows,
    batch_size: int,
    group: int,
) -> tf.data.Dataset:
    """Batches of sections, by name, with their words.

    Args:
        begins: int64, what the rows of each group are asked for by.
        numbers: Gives the rows of a group.
        rows: Gives their sections.
        batch_size: Rows of a batch.
        group: Rows of a group.
    """
    names = [section.name for section in rows.sections]

    def pick(begin: np.int64) -> list[Any]:
        picked, places, dictionaries = rows.pick(numbers(int(begin)))
        return [*picked, places, np.array(dictionaries, object)]

    def sections(begin: tf.Tensor) -> Sections:
        kinds = [tf.as_dtype(section.dtype) for section in rows.sections]
        *picked, places, dictionaries = python_op(pick, [begin], [*kinds, tf.int32, tf.string])
        found = {
            section.name: tf.ensure_shape(part, [None, section.width])
            for section, part in zip(rows.sections, picked, strict=True)
        }
        if "cell" in found:
            places, dictionaries = (tf.ensure_shape(t, [None]) for t in (places, dictionaries))
            found["cell"], found[WORDS] = joined_cells(found["cell"], places, dictionaries)
        return found

    def cut(found: Sections) -> tf.data.Dataset:
        words = {WORDS: found.pop(WORDS)} if WORDS in found else {}
        count = tf.shape(found[names[0]], tf.int64)[0]

        def batch(begin: tf.Tensor) -> Sections:
            return {**{name: part[begin : begin + batch_size] for name, part in found.items()}, **words}

        return tf.data.Dataset.range(0, count, batch_size).map(batch)

    groups = parallel_map(begins, sections)
    return groups.flat_map(cut) if group > batch_size else groups


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
