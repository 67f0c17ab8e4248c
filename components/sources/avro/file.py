"""One Avro file: its header, its blocks and its digest."""

import lzma
import struct
import zlib
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, BinaryIO

import fastavro

from penstock.components.errors import DataError, short_error
from penstock.components.files.content import hash_file, open_data, open_unchanged
from penstock.components.files.sniff import not_text
from penstock.components.sources.opened_files import OpenedFile

_MAGIC = b"Obj\x01"
_SYNC_BYTES = 16
_CRC_BYTES = 4


try:  # The codec of snappy, where it is installed.
    from cramjam import DecompressionError
except ImportError:
    DecompressionError = ValueError

# What fastavro raises of a damaged file, or of a codec that is not installed.
_DAMAGE = (
    EOFError, ValueError, IndexError, KeyError, TypeError, OverflowError, MemoryError, OSError,
    struct.error, zlib.error, lzma.LZMAError, DecompressionError,
)  # fmt: skip


@dataclass(frozen=True, eq=False, kw_only=True)
class AvroFile(OpenedFile):
    """A file as its header and the heads of its blocks describe it.

    Attributes:
        schema: The record that its rows are, as Avro's JSON.
        block_starts: Byte at which each block starts.
        block_ends: One past the last row of each block, ascending.
    """

    schema: Mapping[str, Any]
    block_starts: tuple[int, ...]
    block_ends: tuple[int, ...]

    @property
    def types(self) -> dict[str, Any]:
        """Name to Avro type of each column."""
        return {field["name"]: field["type"] for field in self.schema["fields"]}

    @property
    def names(self) -> list[str]:
        """Names of the columns."""
        return list(self.types)

    def read_rows(self, start: int, end: int) -> Iterator[dict[str, Any]]:
        """The rows from `start` up to `end`, counted from 0."""
        block = bisect_right(self.block_ends, start)
        row = self.block_ends[block - 1] if block else 0
        with open_unchanged(self.path, self.content) as stream:
            try:
                values = fastavro.reader(stream)  # reads the header
                stream.seek(self.block_starts[block])
                for value in values:
                    if row >= end:
                        return
                    if row >= start:
                        yield value  # type: ignore[misc]  # a file's rows are records
                    row += 1
            except _DAMAGE as error:
                raise DataError(
                    f"{self.path}: damaged at row {row + 1} or after it ({short_error(error)}); "
                    "copy or write it again"
                ) from error
        if row < end:
            raise DataError(f"{self.path}: rows end at {row}, expected {end}; it has changed")


def inspect_file(path: str) -> AvroFile:
    """Read the header and all blocks; those of snappy are compared with their checksums."""
    with open_data(path) as stream:
        head = stream.read(512)
    content = hash_file(path)
    if not head.startswith(_MAGIC):
        problem = not_text(head) if content.size else "is empty (0 bytes)"
        raise DataError(f"{path}: {problem or 'is no Avro file'}; expected an Avro container file")
    starts, ends, rows = [], [], 0
    with open_data(path) as stream:
        try:
            reader = fastavro.block_reader(stream)
            for block in reader:
                _check_crc(stream, block)
                starts.append(block.offset)
                rows += block.num_records
                ends.append(rows)
        except _DAMAGE as error:
            raise DataError(
                f"{path}: damaged or cut after row {rows} ({short_error(error)}); "
                "copy or write it again"
            ) from error
        schema = reader.writer_schema
    if not isinstance(schema, Mapping) or schema.get("type") != "record":
        raise DataError(f"{path}: its rows are {schema!r}; expected records with named fields")
    return AvroFile(
        path=path,
        content=content,
        rows=rows,
        schema=schema,
        block_starts=tuple(starts),
        block_ends=tuple(ends),
    )


def _check_crc(stream: BinaryIO, block: Any) -> None:
    """Compare a block with the CRC-32 that snappy's codec adds to it; fastavro does not."""
    if block.codec != "snappy":
        return
    end = block.offset + block.size
    stream.seek(end - _SYNC_BYTES - _CRC_BYTES)
    stored = int.from_bytes(stream.read(_CRC_BYTES), "big")
    stream.seek(end)
    if zlib.crc32(block.bytes_.getbuffer()) != stored:
        raise ValueError(f"the block at byte {block.offset} differs from its checksum")
