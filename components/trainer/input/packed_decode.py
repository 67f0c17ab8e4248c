"""Turns arrays of packed rows into the tensors of their columns, with TensorFlow ops only.

`packing/layout.py` describes the sections. Cells stay indices until the batch is complete; only
then those of the wanted columns become byte strings.
"""

import itertools
from collections.abc import Collection, Mapping
from typing import Any

import tensorflow as tf

from penstock.components.packing.layout import VALUES, PackedColumn, PackedLayout, Section

_LIST_DTYPES = {"INT": tf.int64, "FLOAT": tf.float32}
# Key of the byte strings that the rows' cells index.
WORDS = "words"
# Key of the byte strings of the rows, by plain slot.
TEXTS = "texts"
# Name of the stacked strings of a batch.
_STRINGS = "string"


def joined_cells(
    cells: tf.Tensor, places: tf.Tensor, dictionaries: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
    """Merges the dictionaries of several blocks; returns cells as indices into the result, and it.

    `places` [rows] is the index of each row's dictionary among the serialised `dictionaries`.
    """
    spec = {VALUES: tf.io.RaggedFeature(tf.string)}
    values = tf.io.parse_example(dictionaries, spec)[VALUES]
    first = tf.gather(tf.cast(values.row_starts(), tf.int32), places)
    return cells + first[:, tf.newaxis], values.flat_values


def parsed_texts(
    texts: tf.Tensor, slots: tuple[int, ...], rows: int | None
) -> dict[int, tf.Tensor]:
    """Returns the strings [rows] of each slot; `texts` has one serialised Example per slot."""
    if not slots:
        return {}
    # With a known number of rows, parsing takes half the time.
    feature = (
        tf.io.RaggedFeature(tf.string) if rows is None else tf.io.FixedLenFeature([rows], tf.string)
    )
    values = tf.io.parse_example(texts, {VALUES: feature})[VALUES]
    if rows is None:
        values = tf.reshape(values.flat_values, [len(slots), -1])
    return dict(zip(slots, tf.unstack(values, len(slots)), strict=True))


def split_columns(
    sections: Mapping[str, Any],
    layout: PackedLayout,
    wanted: Collection[str],
    labels: Collection[str],
    *,
    stacked: bool,
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Returns features by name in the layout's order, and the labels by name.

    `sections` has `WORDS` and `TEXTS` if it has cells; `stacked` keeps columns of a type in one
    tensor.
    """
    found: dict[str, Any] = {}
    together: dict[str, Any] = {}
    for section in layout.sections:
        if section.name not in sections:
            continue
        values = sections[section.name]
        parts = _parts(values, section, wanted)
        words, texts = (sections.get(name) for name in (WORDS, TEXTS))
        is_cell = section.name == "cell"
        if is_cell and texts:
            parts = {n: _strings(part, layout.slots[n], words, texts) for n, part in parts.items()}
        rest = [c for c in section.columns if c.name in parts and _is_stacked(c, labels)]
        if rest and stacked:
            is_whole = len(rest) == len(section.columns) and not (is_cell and texts)
            joined = values if is_whole else tf.concat([parts.pop(c.name) for c in rest], axis=1)
            is_number = is_cell and not texts
            together[_STRINGS if is_cell else section.name] = (
                tf.gather(words, joined) if is_number else joined
            )
            parts = {} if is_whole else parts
        if is_cell and not texts:
            parts = {name: tf.gather(words, part) for name, part in parts.items()}
        found |= {c.name: _tensor(parts[c.name], c) for c in section.columns if c.name in parts}
    target = {name: found.pop(name) for name in labels}
    return {
        **together,
        **{c.name: found[c.name] for c in layout.columns if c.name in found},
    }, target


def _strings(
    cells: tf.Tensor, slots: range, words: tf.Tensor, texts: Mapping[int, tf.Tensor]
) -> tf.Tensor:
    if not texts.keys() & slots:
        return tf.gather(words, cells)
    columns = [
        texts[slot] if slot in texts else tf.gather(words, cells[:, at])
        for at, slot in enumerate(slots)
    ]
    return tf.stack(columns, axis=1) if len(columns) > 1 else columns[0][:, tf.newaxis]


def _parts(values: tf.Tensor, section: Section, wanted: Collection[str]) -> dict[str, tf.Tensor]:
    widths = [column.width for column in section.columns]
    if all(column.name in wanted for column in section.columns):
        if len(widths) > 1 and set(widths) == {1}:
            # One pass over the memory, while a split makes one pass per column.
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
    """Returns a column's values in their shape: [rows, *shape], or sparse if lengths vary."""
    if column.storage != "list":
        return tf.reshape(part, [-1, *column.shape]) if len(column.shape) != 1 else part
    cells = part[:, 0]
    if column.kind == "BYTES":
        return tf.io.parse_example(cells, {VALUES: tf.io.VarLenFeature(tf.string)})[VALUES]
    dtype = _LIST_DTYPES[column.kind]
    values = tf.io.decode_raw(tf.strings.reduce_join(cells), dtype)
    lengths = tf.strings.length(cells) // dtype.size
    return tf.RaggedTensor.from_row_lengths(values, lengths, validate=False).to_sparse()
