"""The layout of a packed record: the columns of a block of rows and their offsets.

A packed shard is a TFRecord file whose records are blocks of rows. A block is one fixed
header, then one dense array for each storage type, then byte strings:

    offset  bytes             what
    0       8                 magic, `07 "PNSTKP1"`: no protobuf begins with 07, so a reader
                              of row Examples stops at once instead of reading nonsense
    8       8                 rows in the block, unsigned
    16      8                 bytes of the dictionary, unsigned
    24      8                 number of plain slots, unsigned
    32      20                zeros
    52      rows x row_bytes  each section in turn, row after row, from the next multiple of
    ...                       its alignment on, counted from 12 bytes before the payload
    ...     (as in header)    the dictionary: a tf.train.Example with one feature, `values`
    ...     4 x plain slots   numbers of the plain slots, int32
    ...                       the texts of each plain slot, as they stand in a tf.train.Example:
                              `0a`, length, bytes
    ...                       zeros, until the record with its frame is aligned, too
|
The alignment is 64 bytes, and 4,096 for images, whose rows may be padded to multiples of large
powers of two. So every section begins at a multiple of its alignment in the file, and rows can
be copied directly from a memory map of the file.

All numbers are little endian.

Values that do not fit an array are stored as cells, `width` slots per row: a cell is the index of a
byte string in the block's dictionary. If the values of a slot in a block are mostly distinct, the
slot is plain there: its texts are stored in row order, and its cells are the ends of these texts.

| column                        | storage   | in the block                              |
|-------------------------------|-----------|-------------------------------------------|
| INT, fixed shape              | `int64`   | its values, next to those of other INTs   |
| FLOAT, fixed shape            | `float32` | its values, next to those of other FLOATs |
| image                         | `uint8`   | height x width x channels, not shared     |
| BYTES, as vocabulary ids      | `int32`   | line numbers of the vocabulary file, from 0 |
| BYTES, fixed shape            | `cell`    | one cell per value                        |
| INT or FLOAT, any number      | `list`    | one cell: the values, 8 or 4 bytes each   |
| BYTES, any number             | `list`    | one cell: a tf.train.Example, `values`    |
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from functools import cached_property
from typing import Any

from penstock.components.errors import DataError
from penstock.components.plain import from_record
from penstock.components.tfrecord.framing import FOOTER_BYTES
from penstock.components.tfrecord.framing import HEADER_BYTES as FRAME_HEADER_BYTES

LAYOUT_VERSION = 2
# Version 1 has no plain slots.
_READ_VERSIONS = (1, 2)
# Key, in the manifest's description of packed records, of the columns without any value.
EMPTY_COLUMNS = "empty_columns"

MAGIC = b"\x07PNSTKP1"
HEADER_BYTES = 52
ALIGNMENT = 64
# One page: to copy images from a memory map is fastest in whole pages.
IMAGE_ALIGNMENT = 4096

# The only feature of Examples inside a block (the dictionary, and lists of BYTES).
VALUES = "values"

STORAGES = ("int64", "float32", "uint8", "int32", "cell", "list")
_ITEM_BYTES = {"int64": 8, "float32": 4, "uint8": 1, "int32": 4, "cell": 4, "list": 4}


@dataclass(frozen=True)
class PackedColumn:
    name: str
    kind: str
    storage: str  # one of `STORAGES`; see the table in the module's docstring
    shape: tuple[int, ...] = ()  # shape of the values in a row; `()` for a list
    vocabulary: str | None = None  # path relative to the manifest
    filled: int = 0  # number of rows without a value, for which 0, 0.0 or "" is stored

    @property
    def width(self) -> int:
        return 1 if self.storage == "list" else math.prod(self.shape)

    @property
    def row_bytes(self) -> int:
        return self.width * _ITEM_BYTES[self.storage]


@dataclass(frozen=True)
class Section:
    """A dense array of a block, [rows, width]."""

    name: str  # `int64`, `float32`, `int32`, `cell`, or `uint8:NAME` for an image
    dtype: str
    width: int
    columns: tuple[PackedColumn, ...]

    @property
    def row_bytes(self) -> int:
        size = sum(column.row_bytes for column in self.columns)
        return _padded_image(size) if self.dtype == "uint8" else size

    @property
    def alignment(self) -> int:
        """Alignment of the section's offset in the file, in bytes."""
        return IMAGE_ALIGNMENT if self.dtype == "uint8" else ALIGNMENT


@dataclass(frozen=True)
class PackedLayout:
    """Columns of packed shards, as stored in the manifest."""

    columns: tuple[PackedColumn, ...]
    block_rows: int  # the last block of a shard may have fewer
    seed: int

    @cached_property
    def sections(self) -> tuple[Section, ...]:
        found = []
        for storage in ("int64", "float32", "int32"):
            found += self._section(storage, storage, self._stored(storage))
        for column in self._stored("uint8"):
            found += self._section(f"uint8:{column.name}", "uint8", (column,))
        cells = tuple(c for c in self.columns if c.storage in ("cell", "list"))
        return (*found, *self._section("cell", "int32", cells))

    @property
    def row_bytes(self) -> int:
        """Bytes per row, without dictionary entries."""
        return sum(section.row_bytes for section in self.sections)

    @property
    def alignment(self) -> int:
        """Alignment of the size of a record with its frame, in bytes."""
        return max((section.alignment for section in self.sections), default=ALIGNMENT)

    def section_offsets(self, rows: Any) -> list[Any]:
        """Returns the offsets of sections and dictionary; `rows` may be an array or a tensor."""
        offsets = []
        end = FRAME_HEADER_BYTES + HEADER_BYTES + 0 * rows
        for section in self.sections:
            start = (end + section.alignment - 1) // section.alignment * section.alignment
            offsets.append(start - FRAME_HEADER_BYTES)
            end = start + rows * section.row_bytes
        return [*offsets, end - FRAME_HEADER_BYTES]

    def record_bytes(self, rows: int, text_bytes: int = 0) -> int:
        size = FRAME_HEADER_BYTES + self.section_offsets(rows)[-1] + text_bytes + FOOTER_BYTES
        return -(-size // self.alignment) * self.alignment

    def to_dict(self) -> dict[str, Any]:
        # Lists, not tuples: the manifest is compared with one that was read from JSON.
        columns = [{**asdict(column), "shape": list(column.shape)} for column in self.columns]
        return {"version": LAYOUT_VERSION, **asdict(self), "columns": columns}

    @classmethod
    def from_dict(cls, raw: Mapping[str, Any], path: str) -> "PackedLayout":
        version = raw.get("version")
        if version not in _READ_VERSIONS:
            raise DataError(
                f"{path}: packed records of version {version!r}, this Penstock reads "
                f"{' and '.join(map(str, _READ_VERSIONS))}; pack again or upgrade"
            )
        try:
            layout = from_record(cls, {field.name: raw[field.name] for field in fields(cls)})
            _ = layout.sections
        except (KeyError, TypeError, ValueError) as error:
            raise DataError(f"{path}: damaged description of packed records ({error!r})") from error
        return layout

    @cached_property
    def slots(self) -> dict[str, range]:
        found, first = {}, 0
        for section in self.sections:
            for column in section.columns if section.name == "cell" else ():
                found[column.name] = range(first, first + column.width)
                first += column.width
        return found

    def _stored(self, storage: str) -> tuple[PackedColumn, ...]:
        return tuple(column for column in self.columns if column.storage == storage)

    @staticmethod
    def _section(name: str, dtype: str, columns: Sequence[PackedColumn]) -> list[Section]:
        width = sum(column.width for column in columns)
        return [Section(name, dtype, width, tuple(columns))] if columns else []


def _padded_image(size: int) -> int:
    """Returns an image's size, padded to a multiple of a large power of two (1/64 more at most)."""
    if size % 256 == 0:
        return size
    unit = 2 ** max(size // 64, 1).bit_length() // 2
    unit = min(unit, IMAGE_ALIGNMENT)
    return -(-size // unit) * unit
