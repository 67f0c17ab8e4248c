"""Arrays of packed rows in, the tensors of their columns out: TensorFlow ops only.

`packing/layout.py` says what the sections are. Cells stay numbers until the batch is there, and
only those of the columns that are wanted become byte strings, each of them once.
"""

import itertools
from collections.abc import Collection, Mapping
from typing import Any

import tensorflow as tf

from penstock.components.packing.layout import VALUES, PackedColumn, PackedLayout, Section

_LIST_DTYPES = {"INT": tf.int64, "FLOAT": tf.float32}
# The byte strings that the cells of some rows are numbers of.
WORDS = "words"
# Name of the stacked byte strings of a batch.
_STRINGS = "string"


def joined_cells(
    cells: tf.Tensor, places: tf.Tensor, dictionaries: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
    """The cells of rows of several blocks as numbers of one dictionary, and that dictionary.

    `places` says which of the serialised dictionaries a row's cells are numbers of.
    """
    spec = {VALUES: tf.io.RaggedFeature(tf.string)}
    values = tf.io.parse_example(dictionaries, spec)[VALUES]
    first = tf.gather(tf.cast(values.row_starts(), tf.int32), places)
    return cells + first[:, tf.newaxis], values.flat_values


def split_columns(
    sections: Mapping[str, tf.Tensor],
    layout: PackedLayout,
    wanted: Collection[str],
    labels: Collection[str],
    *,
    stacked: bool,
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Returns features by name in the layout's order, and the labels by name.

    `sections` has `WORDS` if `cell` is among them; `stacked` leaves columns of a type in one
    tensor.
    """
    found: dict[str, Any] = {}
    together: dict[str, Any] = {}
    for section in layout.sections:
        if section.name not in sections:
            continue
        values = sections[section.name]
        parts = _parts(values, section, wanted)
        rest = [c for c in section.columns if c.name in parts and _is_stacked(c, labels)]
        if rest and stacked:
            is_whole = len(rest) == len(section.columns)
            joined = values if is_whole else tf.concat([parts.pop(c.name) for c in rest], axis=1)
            if section.name == "cell":
                together[_STRINGS] = tf.gather(sections[WORDS], joined)
            else:
                together[section.name] = joined
            parts = {} if is_whole else parts
        if section.name == "cell":
            parts = {name: tf.gather(sections[WORDS], part) for name, part in parts.items()}
        found |= {c.name: _tensor(parts[c.name], c) for c in section.columns if c.name in parts}
    target = {name: found.pop(name) for name in labels}
    return {
        **together,
        **{c.name: found[c.name] for c in layout.columns if c.name in found},
    }, target


def _parts(values: tf.Tensor, section: Section, wanted: Collection[str]) -> dict[str, tf.Tensor]:
    widths = [column.width for column in section.columns]
    if all(column.name in wanted for column in section.columns):
        if len(widths) > 1 and set(widths) == {1}:
            # One pass over the memory, where a split makes one for each column.
            parts = [tf.reshape(part, [-1, 1]) for part in tf.unstack(tf.transpose(values))]
        else:
            parts = tf.split(values, widths, axis=1)
        return {c.name: part for c, part in zip(section.columns, parts, strict=True)}
    ends = list(itertools.accumulate(widths))
    return {
        column.name: values[:, end - column.width : end]
        for column, end in zip(section.columns, ends, strict=True)
        if column.name in wanted
    }


def _is_stacked(column: PackedColumn, labels: Collection[str]) -> bool:
    return column.storage not in ("uint8", "list") and column.name not in labels


def _tensor(part: tf.Tensor, column: PackedColumn) -> Any:
    """A column's values in their shape: [rows, *shape], or sparse where rows differ."""
    if column.storage != "list":
        return tf.reshape(part, [-1, *column.shape]) if len(column.shape) != 1 else part
    cells = part[:, 0]
    if column.kind == "BYTES":
        return tf.io.parse_example(cells, {VALUES: tf.io.VarLenFeature(tf.string)})[VALUES]
    dtype = _LIST_DTYPES[column.kind]
    values = tf.io.decode_raw(tf.strings.reduce_join(cells), dtype)
    lengths = tf.strings.length(cells) // dtype.size
    return tf.RaggedTensor.from_row_lengths(values, lengths, validate=False).to_sparse()
