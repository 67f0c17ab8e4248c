"""Converts a block of rows between NumPy arrays and the bytes of a packed record.

`layout.py` describes the bytes. Nothing here needs TensorFlow.
"""

import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.components.errors import DataError
from penstock.components.packing.layout import (
    HEADER_BYTES,
    MAGIC,
    VALUES,
    PackedColumn,
    PackedLayout,
    Section,
)
from penstock.components.tfrecord.encoder import encode_examples, example_head
from penstock.components.tfrecord.example_proto import parse_example
from penstock.components.tfrecord.framing import FOOTER_BYTES
from penstock.components.tfrecord.framing import HEADER_BYTES as FRAME_HEADER_BYTES

_HEADER = struct.Struct(f"<8sQQQ{HEADER_BYTES - 32}x")
_LIST_DTYPES: dict[str, np.dtype[Any]] = {"INT": np.dtype("<i8"), "FLOAT": np.dtype("<f4")}
# From each of these numbers of bits on, a length takes one more byte.
_GROUPS = (7, 14, 21, 28)
_SLOT_DTYPE: np.dtype[Any] = np.dtype("<i4")


# Bytes, or uint8 of a memory map: with NumPy 1, type checkers do not accept arrays as buffers.
Buffer: TypeAlias = Any


@dataclass(frozen=True)
class BlockView:
    """The rows of a packed record as views of its bytes: one `[rows, width]` array per section."""

    rows: int
    sections: Mapping[str, npt.NDArray[Any]]
    dictionary: Buffer  # as `encode_values` wrote it; empty if there is none
    texts: Mapping[int, tuple[int, int]]  # (begin, end) in the payload, by plain slot

    def tagged_texts(self, payload: Buffer, slot: int) -> pa.BinaryArray:
        """Returns the texts of any slot in row order, each with its tag and length."""
        cells = np.ascontiguousarray(self.sections["cell"][:, slot], np.int32)
        if slot not in self.texts:
            return _tagged(self._values()).take(pa.array(cells))
        begin, end = self.texts[slot]
        ends = np.concatenate([[0], cells]).astype(np.int32)
        if (np.diff(ends) < 2).any():
            raise DataError(f"the texts of slot {slot} overlap: the block is damaged")
        data = pa.py_buffer(payload[begin:end])
        return pa.Array.from_buffers(pa.binary(), self.rows, [None, pa.py_buffer(ends), data])

    def _values(self) -> pa.BinaryArray:
        return pa.array(example_values(bytes(self.dictionary)), pa.binary())


@dataclass(frozen=True)
class Block:
    """The rows of a packed record: one `[rows, width]` array per section; cells index `values`.

    The cells of plain slots are not used; `plain` has the texts of these, in row order.
    """

    rows: int
    sections: Mapping[str, npt.NDArray[Any]]
    dictionary: pa.BinaryArray
    plain: Mapping[int, pa.BinaryArray] = field(default_factory=dict)


def encode_block(block: Block, layout: PackedLayout) -> bytes:
    sections, slots = dict(block.sections), sorted(block.plain)
    dictionary = encode_values(block.dictionary) if len(block.dictionary) else b""
    texts = [dictionary, np.array(slots, _SLOT_DTYPE).tobytes()]
    if slots:
        sections["cell"] = sections["cell"].copy()
    for slot in slots:
        tagged = _tagged(block.plain[slot])
        _, ends, data = tagged.buffers()
        sections["cell"][:, slot] = np.frombuffer(ends, np.int32)[1:]
        texts.append(data.to_pybytes())
    *starts, end = layout.section_offsets(block.rows)
    frame = FRAME_HEADER_BYTES + FOOTER_BYTES
    record = bytearray(layout.record_bytes(block.rows, sum(map(len, texts))) - frame)
    _HEADER.pack_into(record, 0, MAGIC, block.rows, len(dictionary), len(slots))
    for section, start in zip(layout.sections, starts, strict=True):
        values = sections[section.name]
        assert values.shape == (block.rows, section.width)
        _array(record, section, start, block.rows)[:] = values
    for text in texts:
        record[end : end + len(text)] = text
        end += len(text)
    return bytes(record)


def view_block(payload: Buffer, layout: PackedLayout) -> BlockView:
    """Returns the arrays of a record without a copy; does not decode its dictionary."""
    rows, dictionary_bytes, plain = _header(payload)
    *starts, end = layout.section_offsets(rows)
    text_begin = end + dictionary_bytes + plain * _SLOT_DTYPE.itemsize
    if text_begin > len(payload) or rows > layout.block_rows:
        raise DataError(
            f"a block of {rows:,} rows in {len(payload):,} bytes does not fit the layout: "
            f"{layout.block_rows:,} rows at most, and {text_begin:,} bytes for these"
        )
    sections = {
        section.name: _array(payload, section, start, rows)
        for section, start in zip(layout.sections, starts, strict=True)
    }
    texts = {}
    for slot in np.frombuffer(payload, _SLOT_DTYPE, plain, end + dictionary_bytes).tolist():
        text_end = text_begin + int(sections["cell"][-1, slot])
        texts[slot] = (text_begin, text_end)
        text_begin = text_end
    if text_begin > len(payload):
        raise DataError(f"texts of {text_begin:,} bytes in a block of {len(payload):,}")
    return BlockView(rows, sections, payload[end : end + dictionary_bytes], texts)


def decode_block(payload: bytes, layout: PackedLayout) -> Block:
    """Decodes a record; the dense arrays are views of its bytes."""
    view = view_block(payload, layout)
    dictionary = example_values(bytes(view.dictionary))
    plain = {slot: _untagged(view.tagged_texts(payload, slot)) for slot in view.texts}
    cells = view.sections.get("cell")
    if cells is not None and cells.size:
        cells = np.delete(cells, list(plain), axis=1)
        if cells.size and not 0 <= cells.min() <= cells.max() < len(dictionary):
            raise DataError(
                f"cells are numbered {cells.min()}..{cells.max()}, but the block's dictionary has "
                f"{len(dictionary):,} values"
            )
    return Block(view.rows, view.sections, pa.array(dictionary, pa.binary()), plain)


def column_values(block: Block, layout: PackedLayout) -> dict[str, Any]:
    """Returns `[rows, *shape]` by column, in the layout's order; a list of arrays for lists."""
    found: dict[str, Any] = {}
    for section in layout.sections:
        values = block.sections[section.name]
        if section.name == "cell":
            values = _texts(block)
        first = 0
        for column in section.columns:
            part = values[:, first : first + column.width]
            found[column.name] = _shaped(part, column)
            first += column.width
    return {column.name: found[column.name] for column in layout.columns}


def _texts(block: Block) -> npt.NDArray[Any]:
    cells = block.sections["cell"]
    found = np.empty(cells.shape, object)
    dictionary = block.dictionary.to_numpy(zero_copy_only=False)
    for slot in range(cells.shape[1]):
        if slot in block.plain:
            found[:, slot] = block.plain[slot].to_numpy(zero_copy_only=False)
        else:
            found[:, slot] = dictionary[cells[:, slot]]
    return found


def block_rows(payload: bytes) -> int:
    return _header(payload)[0]


def is_packed(payload: bytes) -> bool:
    return payload.startswith(MAGIC)


def encode_values(values: pa.BinaryArray) -> bytes:
    """Encodes values as one feature of one tf.train.Example."""
    offsets = pa.array([0, len(values)], pa.int32())
    lists = pa.ListArray.from_arrays(offsets, values)
    return encode_examples(pa.RecordBatch.from_arrays([lists], [VALUES]))[0].as_py()


def example_of(tagged: pa.BinaryArray) -> bytes:
    """Returns the same as `encode_values`, for values that already have tag and length."""
    offsets = np.frombuffer(tagged.buffers()[1], np.int32)[tagged.offset :]
    begin, end = int(offsets[0]), int(offsets[len(tagged)])
    return b"".join((example_head(VALUES, end - begin), tagged.buffers()[2][begin:end]))


def tagged_lengths(lengths: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Returns the sizes of values once a tag and their length (7 bits per byte) precede them."""
    return 2 + lengths + sum((lengths >= 1 << bits).astype(np.int64) for bits in _GROUPS)


def _tagged(values: pa.BinaryArray) -> pa.BinaryArray:
    lengths = pc.binary_length(values).to_numpy(zero_copy_only=False).astype(np.int64)
    ends = np.concatenate([[0], np.cumsum(tagged_lengths(lengths))]).astype(np.int32)
    data = encode_values(values)[-int(ends[-1]) :]
    return pa.Array.from_buffers(
        pa.binary(), len(values), [None, pa.py_buffer(ends), pa.py_buffer(data)]
    )


def _untagged(tagged: pa.BinaryArray) -> pa.BinaryArray:
    offsets = np.frombuffer(tagged.buffers()[1], np.int32, len(tagged) + 1)
    bounds = np.empty(2 * len(tagged) + 1, np.int32)
    bounds[0::2] = offsets
    bounds[1::2] = offsets[:-1] + value_head(np.diff(offsets))
    buffers = [None, pa.py_buffer(bounds), tagged.buffers()[2]]
    # The array alternates heads and values.
    both = pa.Array.from_buffers(pa.binary(), 2 * len(tagged), buffers)
    return both.take(pa.array(np.arange(1, 2 * len(tagged), 2)))


def value_head(tagged: Any) -> Any:
    """Returns the number of bytes of tag and length, given the total number of bytes."""
    return 2 + sum((tagged - 2 - i >= 1 << bits) * 1 for i, bits in enumerate(_GROUPS))


def encode_value_lists(lists: pa.ListArray) -> pa.BinaryArray:
    return encode_examples(pa.RecordBatch.from_arrays([lists], [VALUES]))


def _header(payload: Buffer) -> tuple[int, int, int]:
    """Returns number of rows, bytes of the dictionary, and number of plain slots."""
    header = bytes(payload[:HEADER_BYTES])
    if len(header) < HEADER_BYTES or not is_packed(header):
        raise DataError(f"not a block of packed rows, it begins with {header[:16]!r}")
    _, rows, dictionary_bytes, plain = _HEADER.unpack(header)
    return rows, dictionary_bytes, plain


def _array(data: Buffer, section: Section, start: int, rows: int) -> npt.NDArray[Any]:
    dtype: np.dtype[Any] = np.dtype(section.dtype).newbyteorder("<")
    items = section.row_bytes // dtype.itemsize
    array = np.frombuffer(data, dtype, rows * items, start).reshape(rows, items)
    return array[:, : section.width]


def example_values(example: bytes) -> list[bytes]:
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
