"""A block of rows: NumPy arrays to the bytes of a packed record, and back.

`layout.py` describes the bytes. Nothing here needs TensorFlow.
"""

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.components.errors import DataError
from penstock.components.packing.layout import (
    HEADER_BYTES,
    MAGIC,
    VALUES,
    PackedColumn,
    PackedLayout,
    Section,
)
from penstock.components.tfrecord.encoder import encode_examples
from penstock.components.tfrecord.example_proto import parse_example
from penstock.components.tfrecord.framing import FOOTER_BYTES
from penstock.components.tfrecord.framing import HEADER_BYTES as FRAME_HEADER_BYTES

_HEADER = struct.Struct(f"<8sQQ{HEADER_BYTES - 24}x")
_LIST_DTYPES: dict[str, np.dtype[Any]] = {"INT": np.dtype("<i8"), "FLOAT": np.dtype("<f4")}


# Bytes, or uint8 of a memory map: NumPy 1 does not tell type checkers that an array is a buffer.
Buffer: TypeAlias = Any


@dataclass(frozen=True)
class BlockView:
    """The rows of a packed record as views of its bytes: `[rows, width]` by section."""

    rows: int
    sections: Mapping[str, npt.NDArray[Any]]
    dictionary: Buffer  # as `encode_values` wrote it; empty without one


@dataclass(frozen=True)
class Block:
    """The rows of a packed record: `[rows, width]` by section; a cell is an index of a value."""

    rows: int
    sections: Mapping[str, npt.NDArray[Any]]
    dictionary: pa.BinaryArray


def encode_block(block: Block, layout: PackedLayout) -> bytes:
    """Encodes a block with the layout's sections, dtypes and widths as a record."""
    dictionary = encode_values(block.dictionary) if len(block.dictionary) else b""
    *starts, end = layout.section_offsets(block.rows)
    frame = FRAME_HEADER_BYTES + FOOTER_BYTES
    data = bytearray(layout.record_bytes(block.rows, len(dictionary)) - frame)
    _HEADER.pack_into(data, 0, MAGIC, block.rows, len(dictionary))
    for section, start in zip(layout.sections, starts, strict=True):
        values = block.sections[section.name]
        assert values.shape == (block.rows, section.width)
        _array(data, section, start, block.rows)[:] = values
    data[end : end + len(dictionary)] = dictionary
    return bytes(data)


def view_block(payload: Buffer, layout: PackedLayout) -> BlockView:
    """Returns the arrays of a record without a copy and without decoding its dictionary."""
    rows, dictionary_bytes = _header(payload)
    *starts, end = layout.section_offsets(rows)
    if end + dictionary_bytes > len(payload) or rows > layout.block_rows:
        raise DataError(
            f"a block of {rows:,} rows in {len(payload):,} bytes does not fit the layout: "
            f"{layout.block_rows:,} rows at most, and {end + dictionary_bytes:,} bytes for these"
        )
    sections = {
        section.name: _array(payload, section, start, rows)
        for section, start in zip(layout.sections, starts, strict=True)
    }
    return BlockView(rows, sections, payload[end : end + dictionary_bytes])


def decode_block(payload: bytes, layout: PackedLayout) -> Block:
    """Decodes a record; the dense arrays are views of its bytes."""
    view = view_block(payload, layout)
    dictionary = example_values(bytes(view.dictionary))
    cells = view.sections.get("cell")
    if cells is not None and cells.size and not 0 <= cells.min() <= cells.max() < len(dictionary):
        raise DataError(
            f"cells are numbered {cells.min()}..{cells.max()}, but the block's dictionary has "
            f"{len(dictionary):,} values"
        )
    return Block(view.rows, view.sections, pa.array(dictionary, pa.binary()))


def column_values(block: Block, layout: PackedLayout) -> dict[str, Any]:
    """Returns `[rows, *shape]` by column, in the layout's order; a list of arrays for lists."""
    dictionary = block.dictionary.to_numpy(zero_copy_only=False)
    found: dict[str, Any] = {}
    for section in layout.sections:
        values = block.sections[section.name]
        if section.name == "cell":
            values = dictionary[values]
        first = 0
        for column in section.columns:
            part = values[:, first : first + column.width]
            found[column.name] = _shaped(part, column)
            first += column.width
    return {column.name: found[column.name] for column in layout.columns}


def block_rows(payload: bytes) -> int:
    return _header(payload)[0]


def is_packed(payload: bytes) -> bool:
    return payload.startswith(MAGIC)


def encode_values(values: pa.BinaryArray) -> bytes:
    """Encodes values as one feature of one tf.train.Example."""
    offsets = pa.array([0, len(values)], pa.int32())
    lists = pa.ListArray.from_arrays(offsets, values)
    return encode_examples(pa.RecordBatch.from_arrays([lists], [VALUES]))[0].as_py()


def encode_value_lists(lists: pa.ListArray) -> pa.BinaryArray:
    return encode_examples(pa.RecordBatch.from_arrays([lists], [VALUES]))


def _header(payload: Buffer) -> tuple[int, int]:
    header = bytes(payload[:HEADER_BYTES])
    if len(header) < HEADER_BYTES or not is_packed(header):
        raise DataError(f"not a block of packed rows, it begins with {header[:16]!r}")
    _, rows, dictionary_bytes = _HEADER.unpack(header)
    return rows, dictionary_bytes


def _array(data: Buffer, section: Section, start: int, rows: int) -> npt.NDArray[Any]:
    dtype: np.dtype[Any] = np.dtype(section.dtype).newbyteorder("<")
    items = section.row_bytes // dtype.itemsize
    array = np.frombuffer(data, dtype, rows * items, start).reshape(rows, items)
    return array[:, : section.width]


def example_values(example: bytes) -> list[bytes]:
    """Decodes what `encode_values` wrote; an empty list for no bytes."""
    if not example:
        return []
    message: Any = parse_example(example)
    if message is None:
        raise DataError("the block's dictionary is damaged")
    return list(message.context.feature[VALUES].bytes_list.value)


def _shaped(part: npt.NDArray[Any], column: PackedColumn) -> Any:
    if column.storage != "list":
        return part.reshape(len(part), *column.shape)
    if column.kind == "BYTES":
        return [example_values(value) for value in part[:, 0]]
    return [np.frombuffer(value, _LIST_DTYPES[column.kind]) for value in part[:, 0]]
