"""Records with large values (images), encoded and framed in pieces: no large value is copied.

To join an image's bytes to a record, and that to its frame, copies them twice into memory that
the system must clear first, which costs more than their checksums. The pieces point to where the
values are, and are the bytes that `encode_examples` and `frame_records` write.
"""

import functools
import hashlib
import struct
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import google_crc32c
import pyarrow as pa

from penstock.components.tfrecord.encoder import encode_in_pieces
from penstock.components.tfrecord.framing import MASK_DELTA, masked_crc

# A view costs as much as two copies of so many bytes; of both, below a microsecond.
_LARGE_BYTES = 4096

Buffer = Any  # bytes or pa.Buffer; pyarrow ships no types
Pieces = Sequence[Buffer]


def has_large_values(batch: pa.RecordBatch) -> bool:
    """Whether a column's values are so large that the batch is better encoded in pieces."""
    return any(map(_is_large, batch.columns))


def encode_large(batch: pa.RecordBatch) -> list[Pieces]:
    """The pieces of each Example that `encode_examples` makes; its large values are views."""
    columns = zip(batch.schema.names, batch.columns, strict=True)
    large = {name for name, column in columns if _is_large(column)}
    pieces = map(_buffers, encode_in_pieces(batch, large))
    return list(zip(*pieces, strict=True))


def frame_large(records: Sequence[Pieces]) -> list[Pieces]:
    """The records with their frames, ready to be written one after the other."""
    framed: list[Pieces] = []
    for record in records:
        crc = functools.reduce(google_crc32c.extend, record, 0)
        masked = ((crc >> 15 | crc << 17) + MASK_DELTA) & 0xFFFFFFFF
        size = struct.pack("<Q", sum(map(len, record)))
        header = size + struct.pack("<I", masked_crc(size))
        framed.append((header, *record, struct.pack("<I", masked)))
    return framed


def digest_large(records: Sequence[Pieces]) -> Iterator[bytes]:
    """The sha256 of each record."""
    for record in records:
        digest = hashlib.sha256()
        for piece in record:
            digest.update(piece)
        yield digest.digest()


def _is_large(column: pa.Array) -> bool:
    is_binary = pa.types.is_binary(column.type)
    return is_binary and column.nbytes >= _LARGE_BYTES * max(1, len(column))


def _buffers(values: pa.BinaryArray) -> list[Buffer]:
    """The bytes of each value, no nulls: objects of their own where they are short, else views."""
    if not _is_large(values):
        return values.to_numpy(zero_copy_only=False).tolist()
    _, offsets, data = values.buffers()
    ends = memoryview(offsets).cast("i")[values.offset : values.offset + len(values) + 1].tolist()
    return [data.slice(start, end - start) for start, end in pairwise(ends)]
