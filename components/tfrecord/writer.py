"""Frames and writes shards: takes encoded rows, returns the manifest entry of a finished file.

Batches of short records are framed as one Arrow array, without a Python object per record. Records
with large values (images) are encoded and framed in pieces that point to the values: to join an
image's bytes to a record, and the record to its frame, would copy them twice into new memory, which
costs more than their checksums. Both ways give the same bytes.
"""

import functools
import hashlib
import os
import struct
import uuid
import zlib
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import google_crc32c
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.components.errors import naming
from penstock.components.tfrecord.encoder import encode_in_pieces
from penstock.components.tfrecord.framing import MASK_DELTA, masked_crc
from penstock.components.tfrecord.manifest import Shard

# Level 1 takes 6 us of CPU per row of 40 columns, the default level 26 us, for files a few percent
# smaller (benchmarks/ingest.py).
GZIP_LEVEL = 1
_PIECES_AT_ONCE = 1024  # IOV_MAX of Linux and macOS
_GZIP_WBITS = 16 + zlib.MAX_WBITS  # a gzip header without time stamp: equal rows, equal bytes
# To make a view costs as much as to copy so many bytes twice: less than a microsecond.
_LARGE_BYTES = 4096

Buffer = Any  # bytes or pa.Buffer; pyarrow ships no types
Pieces = Sequence[Buffer]


def frame_records(records: pa.BinaryArray) -> pa.BinaryArray:
    lengths = pc.binary_length(records).to_numpy(zero_copy_only=False).astype("<u8")
    headers = pa.array([_header(n) for n in lengths.tolist()], pa.binary())
    # Several times faster than to_pylist, which first makes an Arrow scalar of each value.
    payloads = records.to_numpy(zero_copy_only=False)
    crcs = np.fromiter(map(google_crc32c.value, payloads), np.uint32, len(records))
    footers = ((crcs >> 15 | crcs << 17) + np.uint32(MASK_DELTA)).astype("<u4")
    return pc.binary_join_element_wise(
        headers, records, _fixed_width(footers), pa.scalar(b"", pa.binary())
    )


def has_large_values(batch: pa.RecordBatch) -> bool:
    """Returns whether values are so large that encoding in pieces is faster."""
    return any(map(_is_large, batch.columns))


def encode_large(batch: pa.RecordBatch) -> list[Pieces]:
    """Returns each row's Example as pieces; large values are views of the batch.

    Joined, the pieces are the bytes that `encode_examples` would give.
    """
    columns = zip(batch.schema.names, batch.columns, strict=True)
    large = {name for name, column in columns if _is_large(column)}
    pieces = map(_buffers, encode_in_pieces(batch, large))
    return list(zip(*pieces, strict=True))


def frame_large(records: Sequence[Pieces]) -> list[Pieces]:
    framed: list[Pieces] = []
    for record in records:
        crc = functools.reduce(google_crc32c.extend, record, 0)
        masked = ((crc >> 15 | crc << 17) + MASK_DELTA) & 0xFFFFFFFF
        size = struct.pack("<Q", sum(map(len, record)))
        header = size + struct.pack("<I", masked_crc(size))
        framed.append((header, *record, struct.pack("<I", masked)))
    return framed


def digest_large(records: Sequence[Pieces]) -> Iterator[bytes]:
    for record in records:
        digest = hashlib.sha256()
        for piece in record:
            digest.update(piece)
        yield digest.digest()


class ShardWriter:
    """Writer of one shard under a temporary name; renames it when it is complete.

    A context manager; an exception in the block removes the file. Two writers of the same shard (a
    retried Beam bundle) use different temporary names: the last one to finish replaces the other's.
    """

    def __init__(self, root: str | os.PathLike[str], file: str, *, compression: str = "") -> None:
        self._file = file
        self._path = Path(root) / file
        self._path.parent.mkdir(exist_ok=True)  # not the root: a late try must not recreate it
        self._temporary = self._path.with_name(f".{self._path.name}.{uuid.uuid4().hex}")
        self._out = self._temporary.open("wb", buffering=0)
        self._gzip = zlib.compressobj(GZIP_LEVEL, wbits=_GZIP_WBITS) if compression else None
        self._digest = hashlib.sha256()
        self._rows = 0
        self._bytes = 0

    def write(self, framed: pa.BinaryArray) -> None:
        if len(framed) == 0:
            return
        self._rows += len(framed)
        self._append([_contiguous(framed)])

    def write_large(self, framed: Sequence[Pieces]) -> None:
        self._rows += len(framed)
        self._append([piece for record in framed for piece in record])

    def write_rows(self, rows: int, data: Buffer) -> None:
        self._rows += rows
        self._append([data])

    def finish(self) -> Shard:
        """Completes the file under its final name and returns its manifest entry."""
        if self._gzip:
            self._flush([self._gzip.flush()])
        os.fsync(self._out.fileno())
        self._out.close()
        self._temporary.rename(self._path)
        return Shard(self._file, self._rows, self._bytes, self._digest.hexdigest())

    def __enter__(self) -> "ShardWriter":
        return self

    def __exit__(self, *_: object) -> None:
        self._out.close()
        self._temporary.unlink(missing_ok=True)

    def _append(self, data: Sequence[Buffer]) -> None:
        self._flush([self._gzip.compress(piece) for piece in data] if self._gzip else data)

    def _flush(self, data: Sequence[Buffer]) -> None:
        for piece in data:
            self._digest.update(piece)
            self._bytes += len(piece)
        with naming(self._path):
            _write_all(self._out.fileno(), data)


@functools.lru_cache(maxsize=2**16)
def _header(length: int) -> bytes:
    size = struct.pack("<Q", length)
    return size + struct.pack("<I", masked_crc(size))


def _fixed_width(words: np.ndarray) -> pa.BinaryArray:
    offsets = np.arange(0, 4 * len(words) + 1, 4, dtype=np.int32)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(words)]
    return pa.Array.from_buffers(pa.binary(), len(words), buffers)


def _is_large(column: pa.Array) -> bool:
    is_binary = pa.types.is_binary(column.type)
    return is_binary and column.nbytes >= _LARGE_BYTES * max(1, len(column))


def _buffers(values: pa.BinaryArray) -> list[Buffer]:
    """Returns the bytes of each value, no nulls: copies of short values, views of long ones."""
    if not _is_large(values):
        return values.to_numpy(zero_copy_only=False).tolist()
    _, offsets, data = values.buffers()
    ends = memoryview(offsets).cast("i")[values.offset : values.offset + len(values) + 1].tolist()
    return [data.slice(start, end - start) for start, end in pairwise(ends)]


def _write_all(file: int, pieces: Sequence[Buffer]) -> None:
    """Writes all pieces; one call of `writev` may write only some of its bytes."""
    at = skip = 0
    while at < len(pieces):
        run = pieces[at : at + _PIECES_AT_ONCE]
        if skip:
            run = [memoryview(run[0])[skip:], *run[1:]]
        skip += os.writev(file, run)
        while at < len(pieces) and skip >= len(pieces[at]):
            skip -= len(pieces[at])
            at += 1


def _contiguous(array: pa.BinaryArray) -> memoryview:
    """Returns the concatenated bytes of all values, without a copy."""
    _, offsets, data = array.buffers()
    ends = memoryview(offsets).cast("i")
    return memoryview(data)[ends[array.offset] : ends[array.offset + len(array)]]
