"""Frames and writes shards: takes encoded rows, returns the manifest entry of the finished file.

The records of a batch are framed together, as one Arrow array.
"""

import functools
import hashlib
import os
import struct
import zlib
from pathlib import Path

import google_crc32c
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.components.errors import naming
from penstock.components.tfrecord.framing import MASK_DELTA, masked_crc
from penstock.components.tfrecord.manifest import Shard

# Level 1 takes 6 us of CPU per row of 40 columns, the default level 26 us for files that are a few
# percent smaller (benchmarks/ingest.py).
GZIP_LEVEL = 1
_GZIP_WBITS = 16 + zlib.MAX_WBITS  # writes no time stamp, so equal rows give equal bytes


def frame_records(records: pa.BinaryArray) -> pa.BinaryArray:
    lengths = pc.binary_length(records).to_numpy(zero_copy_only=False).astype("<u8")
    headers = pa.array([_header(n) for n in lengths.tolist()], pa.binary())
    # `to_numpy` is several times faster than `to_pylist`, which first makes an Arrow scalar of each
    # value.
    payloads = records.to_numpy(zero_copy_only=False)
    crcs = np.fromiter(map(google_crc32c.value, payloads), np.uint32, len(records))
    footers = ((crcs >> 15 | crcs << 17) + np.uint32(MASK_DELTA)).astype("<u4")
    words = pa.Array.from_buffers(pa.binary(4), len(records), [None, pa.py_buffer(footers)])
    return pc.binary_join_element_wise(
        headers, records, words.cast(pa.binary()), pa.scalar(b"", pa.binary())
    )


class ShardWriter:
    """Writer of one shard in the folder of one attempt, which is discarded if the attempt fails.

    The writer is a context manager. Two attempts at one shard, as in a retried Beam bundle, have
    different folders.
    """

    def __init__(self, root: str | os.PathLike[str], file: str, *, compression: str = "") -> None:
        self._file = file
        self._path = Path(root) / file
        # `parents` is not set, because a late attempt must not make a removed `root` again.
        self._path.parent.mkdir(exist_ok=True)
        self._out = self._path.open("wb", buffering=0)
        self._gzip = zlib.compressobj(GZIP_LEVEL, wbits=_GZIP_WBITS) if compression else None
        self._digest = hashlib.sha256()
        self._rows = 0
        self._bytes = 0

    def write(self, framed: pa.BinaryArray) -> None:
        if len(framed) == 0:
            return
        self._rows += len(framed)
        data = _contiguous(framed)
        self._flush(self._gzip.compress(data) if self._gzip else data)

    def finish(self) -> Shard:
        """Completes the file and returns its manifest entry."""
        if self._gzip:
            self._flush(self._gzip.flush())
        os.fsync(self._out.fileno())
        self._out.close()
        return Shard(self._file, self._rows, self._bytes, self._digest.hexdigest())

    def __enter__(self) -> "ShardWriter":
        return self

    def __exit__(self, *_: object) -> None:
        self._out.close()

    def _flush(self, data: bytes | memoryview) -> None:
        self._digest.update(data)
        self._bytes += len(data)
        left = memoryview(data)
        with naming(self._path):
            while left:  # an unbuffered write may take only some of the bytes
                left = left[self._out.write(left) :]


@functools.lru_cache(maxsize=2**16)
def _header(length: int) -> bytes:
    size = struct.pack("<Q", length)
    return size + struct.pack("<I", masked_crc(size))


def _contiguous(array: pa.BinaryArray) -> memoryview:
    """Returns the concatenated bytes of all values, without a copy."""
    _, offsets, data = array.buffers()
    ends = memoryview(offsets).cast("i")
    return memoryview(data)[ends[array.offset] : ends[array.offset + len(array)]]
