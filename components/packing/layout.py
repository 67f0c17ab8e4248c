"""The layout of a packed record: the columns of a block of rows, and their places.

A packed shard is a TFRecord file whose records are blocks of rows. A block is one fixed
header, then one dense array for each storage type, then a dictionary of byte strings:

    offset  bytes             what
    0       8                 magic, `07 "PNSTKP1"`: no protobuf begins with 07, so a reader
                              of row Examples stops at once instead of reading nonsense
    8       8                 rows in the block, unsigned
    16      8                 bytes of the dictionary, unsigned
    24      28                zeros
    52      rows x row_bytes  each section in turn, row after row, from the next multiple of
    ...                       its alignment on, counted from 12 bytes before the payload
    ...     (as in header)    the dictionary: a tf.train.Example with one feature, `values`
    ...                       zeros, until the record with its frame is aligned, too

The alignment is 64 bytes, of images 4,096; an image's rows may be padded, so that they are made
of large powers of two. So every section stands at a multiple of its alignment in the file, and
rows can be picked right out of a memory map of it.

All numbers are little endian.

What cannot be an array is a cell: the number of a byte string in the block's dictionary.

| column                        | storage   | in the block                              |
|-------------------------------|-----------|-------------------------------------------|
| INT, fixed shape              | `int64`   | its values, beside the other INTs         |
| FLOAT, fixed shape            | `float32` | likewise                                  |
| image                         | `uint8`   | height x width x channels, alone          |
| BYTES, as vocabulary ids      | `int32`   | line numbers of the vocabulary file, from 0 |
| BYTES, fixed shape            | `cell`    | one cell a value                          |
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

LAYOUT_VERSION = 1
# Where the manifest's description of packed records names the columns without any value.
EMPTY_COLUMNS = "empty_columns"

MAGIC = b"\x07PNSTKP1"
HEADER_BYTES = 52
ALIGNMENT = 64
# A page. Picking an image out of a memory map moves runs of bytes of this size at best.
IMAGE_ALIGNMENT = 4096

# The only feature of the Examples within a block: the dictionary, and lists of BYTES.
VALUES = "values"

STORAGES = ("int64", "float32", "uint8", "int32", "cell", "list")
_ITEM_BYTES = {"int64": 8, "float32": 4, "uint8": 1, "int32": 4, "cell": 4, "list": 4}


@dataclass(frozen=True)
class PackedColumn:
    """One feature of the rows.

    Attributes:
        name: Its name in the row Examples.
        kind: Its kind there: INT, FLOAT or BYTES.
        storage: One of `STORAGES`; see the table above.
        shape: Of one row's values; `()` for a list.
        vocabulary: Path of its vocabulary, relative to the manifest; None without one.
        filled: Rows without a value, which have 0, 0.0 or the empty string instead.
    """

    name: str
    kind: str
    storage: str
    shape: tuple[int, ...] = ()
    vocabulary: str | None = None
    filled: int = 0

    @property
    def width(self) -> int:
        """Values, or cells, that a row has of it."""
        return 1 if self.storage == "list" else math.prod(self.shape)

    @property
    def row_bytes(self) -> int:
        """Bytes that a row has of it, an image's padding and dictionary entries left out."""
        return self.width * _ITEM_BYTES[self.storage]


@dataclass(frozen=True)
class Section:
    """One dense array of a block, [rows, width].

    Attributes:
        name: `int64`, `float32`, `int32`, `cell`, or `uint8:NAME` of an image.
        dtype: Of its items, as NumPy and TensorFlow call it.
        width: Items a row.
        columns: The columns in it, in the order of their items.
    """

    name: str
    dtype: str
    width: int
    columns: tuple[PackedColumn, ...]

    @property
    def row_bytes(self) -> int:
        """Bytes that a row has in it."""
        size = sum(column.row_bytes for column in self.columns)
        return _padded_image(size) if self.dtype == "uint8" else size

    @property
    def alignment(self) -> int:
        """What its place in the file is a multiple of, in bytes."""
        return IMAGE_ALIGNMENT if self.dtype == "uint8" else ALIGNMENT


@dataclass(frozen=True)
class PackedLayout:
    """The columns of a packed set of shards, as its manifest states them.

    Attributes:
        columns: In the order of the rows' columns.
        block_rows: Rows in every block but the last one of a shard, which may have fewer.
        seed: What the rows were shuffled by when they were written.
    """

    columns: tuple[PackedColumn, ...]
    block_rows: int
    seed: int

    @cached_property
    def sections(self) -> tuple[Section, ...]:
        """The dense arrays of a block, in their order there."""
        found = []
        for storage in ("int64", "float32", "int32"):
            found += self._section(storage, storage, self._stored(storage))
        for column in self._stored("uint8"):
            found += self._section(f"uint8:{column.name}", "uint8", (column,))
        cells = tuple(c for c in self.columns if c.storage in ("cell", "list"))
        return (*found, *self._section("cell", "int32", cells))

    @property
    def row_bytes(self) -> int:
        """Bytes that a row takes, its dictionary entries left out."""
        return sum(section.row_bytes for section in self.sections)

    @property
    def alignment(self) -> int:
        """What the size of a record with its frame is a multiple of, in bytes."""
        return max((section.alignment for section in self.sections), default=ALIGNMENT)

    def section_offsets(self, rows: Any) -> list[Any]:
        """Where each section starts in a block, and at last where the dictionary does.

        Args:
            rows: Rows in the block; an integer, an array or a tensor of integers.
        """
        offsets = []
        end = FRAME_HEADER_BYTES + HEADER_BYTES + 0 * rows
        for section in self.sections:
            start = (end + section.alignment - 1) // section.alignment * section.alignment
            offsets.append(start - FRAME_HEADER_BYTES)
            end = start + rows * section.row_bytes
        return [*offsets, end - FRAME_HEADER_BYTES]

    def record_bytes(self, rows: int, dictionary_bytes: int = 0) -> int:
        """Size of a block in the file, its frame included."""
        size = FRAME_HEADER_BYTES + self.section_offsets(rows)[-1] + dictionary_bytes + FOOTER_BYTES
        return -(-size // self.alignment) * self.alignment

    def to_dict(self) -> dict[str, Any]:
        """As the manifest keeps it."""
        # Lists, as JSON has them: a manifest is compared with one that was read.
        columns = [{**asdict(column), "shape": list(column.shape)} for column in self.columns]
        return {"version": LAYOUT_VERSION, **asdict(self), "columns": columns}

    @classmethod
    def from_dict(cls, raw: Mapping[str, Any], path: str) -> "PackedLayout":
        """Read what `to_dict` gave.

        Raises:
            DataError: It is of another version, or damaged.
        """
        version = raw.get("version")
        if version != LAYOUT_VERSION:
            raise DataError(
                f"{path}: packed records of version {version!r}, this Penstock reads "
                f"{LAYOUT_VERSION}; pack again or upgrade"
            )
        try:
            layout = from_record(cls, {field.name: raw[field.name] for field in fields(cls)})
            _ = layout.sections
        except (KeyError, TypeError, ValueError) as error:
            raise DataError(f"{path}: damaged description of packed records ({error!r})") from error
        return layout

    def _stored(self, storage: str) -> tuple[PackedColumn, ...]:
        return tuple(column for column in self.columns if column.storage == storage)

    @staticmethod
    def _section(name: str, dtype: str, columns: Sequence[PackedColumn]) -> list[Section]:
        width = sum(column.width for column in columns)
        return [Section(name, dtype, width, tuple(columns))] if columns else []


def _padded_image(size: int) -> int:
    """Bytes of an image, padded to a multiple of a large power of two at a cost of 1/64 at most."""
    if size % 256 == 0:
        return size
    unit = 2 ** max(size // 64, 1).bit_length() // 2
    unit = min(unit, IMAGE_ALIGNMENT)
    return -(-size // unit) * unit
