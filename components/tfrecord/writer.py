"""One shard at a time: framed records in, a finished file and its manifest entry out."""

import hashlib
import os
import uuid
import zlib
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

from penstock.components.errors import naming
from penstock.components.tfrecord.large_records import Buffer, Pieces
from penstock.components.tfrecord.manifest import Shard

# Level 1 costs 6 us of CPU a row of 40 columns, the default level 26, for files a few
# percent smaller (benchmarks/ingest.py).
GZIP_LEVEL = 1
_PIECES_AT_ONCE = 1024  # Linux's and macOS's IOV_MAX
_GZIP_WBITS = 16 + zlib.MAX_WBITS  # a gzip header without time stamp: equal rows, equal bytes


class ShardWriter:
    """Writes a shard beside its name and renames it when it is whole.

    A context manager; leaving it by an exception removes what was written. Two writers of
    the same shard (a retried Beam bundle) do not meet: the last to finish stands.

    The manifest will stand in the folder `root` and name the shard `file`, its path within it.
    """

    def __init__(self, root: str | os.PathLike[str], file: str, *, compression: str = "") -> None:
        self._file = file
        self._path = Path(root) / file
        self._path.parent.mkdir(exist_ok=True)  # the root is there, or is gone for good
        self._temporary = self._path.with_name(f".{self._path.name}.{uuid.uuid4().hex}")
        self._out = self._temporary.open("wb", buffering=0)
        self._gzip = zlib.compressobj(GZIP_LEVEL, wbits=_GZIP_WBITS) if compression else None
        self._digest = hashlib.sha256()
        self._rows = 0
        self._bytes = 0

    def write(self, framed: pa.BinaryArray) -> None:
        """Append records that `frame_batch.frame_records` framed."""
        if len(framed) == 0:
            return
        self._rows += len(framed)
        self._append([_contiguous(framed)])

    def write_large(self, framed: Sequence[Pieces]) -> None:
        """Append records that `large_records.frame_large` framed; none is copied."""
        self._rows += len(framed)
        self._append([piece for record in framed for piece in record])

    def write_rows(self, rows: int, data: Buffer) -> None:
        """Append rows that are not records, as their bytes."""
        self._rows += rows
        self._append([data])

    def finish(self) -> Shard:
        """Complete the file under its name and say what is in it."""
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


def _write_all(file: int, pieces: Sequence[Buffer]) -> None:
    """Write the pieces one after the other; the system may take only a part of what it is given."""
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
    """The values' bytes, one after the other, without a copy."""
    _, offsets, data = array.buffers()
    ends = memoryview(offsets).cast("i")
    return memoryview(data)[ends[array.offset] : ends[array.offset + len(array)]]
