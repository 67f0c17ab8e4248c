"""Packed records in, tensors of their rows out: TensorFlow ops only, no Python a row.

`packing/layout.py` says what a record's bytes are. Several blocks are decoded at a
time, whatever the number of rows of each: the bytes of a section of all blocks are joined
and read as one tensor.
"""

from collections.abc import Callable, Collection, Mapping
from typing import Any

import tensorflow as tf

from penstock.components.packing.layout import (
    DICTIONARY_BYTES_OFFSET,
    ROWS_OFFSET,
    VALUES,
    PackedColumn,
    PackedLayout,
    Section,
)

_LIST_DTYPES = {"INT": tf.int64, "FLOAT": tf.float32}
# What a section is called once its cells are byte strings.
STRINGS = "string"


def decode_blocks(
    records: tf.Tensor,
    layout: PackedLayout,
    wanted: Collection[str],
    order_of: Callable[[tf.Tensor], tf.Tensor] | None = None,
) -> dict[str, tf.Tensor]:
    """The rows of some blocks.

    Args:
        records: string [blocks], packed records.
        layout: What is in them.
        wanted: Columns; a section with none of them is passed over.
        order_of: Given the number of rows of all blocks together, their new order; None keeps
            the one they have.

    Returns:
        `[rows, width]` of each section, by name; `string` in place of `cell`.
    """
    rows = _number(records, ROWS_OFFSET)
    *starts, end = layout.section_offsets(rows)
    order = None if order_of is None else order_of(tf.reduce_sum(rows))
    decoded = {}
    for section, start in zip(layout.sections, starts, strict=True):
        if not is_wanted(section, wanted):
            continue
        values = _section(records, section, start, rows)
        if section.name != "cell":
            decoded[section.name] = values if order is None else tf.gather(values, order)
            continue
        dictionary = tf.strings.substr(records, end, _number(records, DICTIONARY_BYTES_OFFSET))
        values, words = _cells(values, rows, dictionary)
        # The numbers are permuted, not the strings: four bytes each instead of 24.
        decoded[STRINGS] = tf.gather(words, values if order is None else tf.gather(values, order))
    return decoded


def is_wanted(section: Section, wanted: Collection[str]) -> bool:
    """Whether any of a section's columns is wanted."""
    return any(column.name in wanted for column in section.columns)


def _number(records: tf.Tensor, offset: int) -> tf.Tensor:
    """int64 [blocks], a number from the header of each."""
    return tf.reshape(tf.io.decode_raw(tf.strings.substr(records, offset, 8), tf.int64), [-1])


def _section(records: tf.Tensor, section: Section, start: tf.Tensor, rows: tf.Tensor) -> tf.Tensor:
    parts = tf.strings.substr(records, start, rows * section.row_bytes)
    data = tf.io.decode_raw(tf.strings.reduce_join(parts), tf.as_dtype(section.dtype))
    rows_with_padding = tf.reshape(data, [-1, section.row_bytes // data.dtype.size])
    return rows_with_padding[:, : section.width]


def _cells(
    cells: tf.Tensor, rows: tf.Tensor, dictionaries: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
    """The cells as numbers of one dictionary, and that dictionary."""
    spec = {VALUES: tf.io.RaggedFeature(tf.string)}
    values = tf.io.parse_example(dictionaries, spec)[VALUES]
    first = tf.repeat(tf.cast(values.row_starts(), tf.int32), rows)
    return cells + first[:, tf.newaxis], values.flat_values


def split_columns(
    sections: Mapping[str, tf.Tensor],
    layout: PackedLayout,
    wanted: Collection[str],
    labels: Collection[str],
    *,
    stacked: bool,
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Make features of sections, the labels apart.

    Args:
        sections: `[rows, width]` of each, as `decode_blocks` gives them.
        layout: What is in them.
        wanted: The columns to give, the labels among them.
        labels: The columns that are labels.
        stacked: Whether columns of numbers and strings stay together.

    Returns:
        Features by name in the layout's order, and the labels by name.
    """
    found: dict[str, Any] = {}
    together: dict[str, Any] = {}
    for section in layout.sections:
        name = STRINGS if section.name == "cell" else section.name
        if name not in sections:
            continue
        parts = tf.split(sections[name], [c.width for c in section.columns], axis=1)
        pairs = list(zip(section.columns, parts, strict=True))
        found |= {c.name: _tensor(part, c) for c, part in pairs if c.name in wanted}
        rest = [p for c, p in pairs if c.name in wanted and c.name not in labels and _can_stack(c)]
        if rest:
            together[name] = sections[name] if len(rest) == len(parts) else tf.concat(rest, axis=1)
    target = {name: found.pop(name) for name in labels}
    alone = [c.name for c in layout.columns if c.name in found]
    if stacked:
        alone = [c.name for c in layout.columns if c.name in found and not _can_stack(c)]
    return {**(together if stacked else {}), **{name: found[name] for name in alone}}, target


def _can_stack(column: PackedColumn) -> bool:
    return column.storage not in ("uint8", "list")


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
