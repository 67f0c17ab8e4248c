"""Any number of rows in an order that a seed decides, in bounded memory: rows in, rows out.

Each row gets a random 64-bit key, decided by the seed, the split and the row's place. The
rows in the order of their keys are a uniformly random permutation. Keys fall evenly, so the
keys' range is cut into buckets that fit into memory: a first pass appends each row to the
file of its bucket, a second reads bucket after bucket and sorts each. Rows that fit into
memory as they are never touch the disk.
"""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

# Files that are open at a time; 256 buckets of 256 MiB are 64 GiB.
_MAX_BUCKETS = 256
_WRITE_BYTES = 2**19
# Rows that leave a bucket at a time.
_ROWS_OUT = 1024
_KEYS = 2**63

Keys = npt.NDArray[np.int64]


class RowShuffler:
    """Takes all rows of a split, then gives them back shuffled.

    Args:
        folder: For the buckets; made where it is needed and emptied bucket by bucket.
        name: The split's; two splits are not shuffled alike.
        seed: Decides the order.
        expected_bytes: About how many bytes the rows have.
        memory_bytes: About how many may be in memory.
    """

    def __init__(
        self, folder: Path, name: str, *, seed: int, expected_bytes: int, memory_bytes: int
    ) -> None:
        digest = hashlib.sha256(f"{seed}\0{name}".encode()).digest()
        self._keys = np.random.Generator(np.random.PCG64(int.from_bytes(digest[:16], "little")))
        buckets = min(_MAX_BUCKETS, -(-expected_bytes // memory_bytes))
        self._buckets: Sequence[_MemoryBucket | _FileBucket] = [_MemoryBucket()]
        if buckets > 1:
            self._buckets = [_FileBucket(folder / f"{name}-{i:03d}") for i in range(buckets)]
        self.rows = 0

    def add(self, rows: list[bytes]) -> None:
        """Take some rows."""
        keys = self._keys.integers(0, _KEYS, len(rows), np.int64)
        count = len(self._buckets)
        values = pa.array(rows, pa.large_binary())
        self.rows += len(rows)
        if count == 1:
            self._buckets[0].add(keys, values)
            return
        places = keys // (_KEYS // count + 1)
        for place in np.unique(places):
            chosen = np.flatnonzero(places == place)
            self._buckets[place].add(keys[chosen], values.take(pa.array(chosen)))

    def shuffled(self, sizes: Iterable[int]) -> Iterator[list[bytes]]:
        """All rows, once, in their new order.

        Args:
            sizes: How many rows each list has; their sum is the number of rows.
        """
        parts = (part for bucket in self._buckets for part in bucket.sorted_rows(_ROWS_OUT))
        rest: list[bytes] = []
        for size in sizes:
            while len(rest) < size:
                rest += next(parts)
            yield rest[:size]
            del rest[:size]


class _MemoryBucket:
    """Rows that stay in memory."""

    def __init__(self) -> None:
        self._keys: list[Keys] = []
        self._values: list[pa.LargeBinaryArray] = []

    def add(self, keys: Keys, values: pa.LargeBinaryArray) -> None:
        """Take some rows and their keys."""
        self._keys.append(keys)
        self._values.append(values)

    def take(self) -> tuple[Keys, pa.LargeBinaryArray]:
        """All keys and rows as they came; they are forgotten."""
        keys = np.concatenate([np.empty(0, np.int64), *self._keys])
        values = pa.concat_arrays([pa.array([], pa.large_binary()), *self._values])
        self._keys, self._values = [], []
        return keys, values

    def sorted_rows(self, step: int) -> Iterator[list[bytes]]:
        """The rows by their keys, `step` at a time; they are forgotten."""
        keys, values = self.take()
        order = np.argsort(keys, kind="stable")
        for start in range(0, len(order), step):
            yield values.take(pa.array(order[start : start + step])).to_pylist()


class _FileBucket:
    """Rows in an Arrow file, written some hundred kilobytes at a time."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._waiting = _MemoryBucket()
        self._waiting_bytes = 0
        self._sink: Any = None
        self._writer: Any = None

    def add(self, keys: Keys, values: pa.LargeBinaryArray) -> None:
        """Take some rows and their keys."""
        self._waiting.add(keys, values)
        self._waiting_bytes += values.nbytes
        if self._waiting_bytes >= _WRITE_BYTES:
            self._write()

    def sorted_rows(self, step: int) -> Iterator[list[bytes]]:
        """The rows by their keys, `step` at a time; the file is removed."""
        if self._writer is None:
            yield from self._waiting.sorted_rows(step)
            return
        self._write()
        self._writer.close()
        self._sink.close()  # the writer leaves it open: the disk would be freed at the end only
        bucket = _MemoryBucket()
        with pa.OSFile(str(self._path)) as file:
            for batch in pa.ipc.open_stream(file):
                bucket.add(batch.column(0).to_numpy(), batch.column(1))
        self._path.unlink()
        yield from bucket.sorted_rows(step)

    def _write(self) -> None:
        keys, values = self._waiting.take()
        if not len(keys):
            return
        batch = pa.RecordBatch.from_arrays([pa.array(keys), values], ["key", "row"])
        if self._writer is None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._sink = pa.OSFile(str(self._path), "wb")
            self._writer = pa.ipc.new_stream(self._sink, batch.schema)
        self._writer.write_batch(batch)
        self._waiting_bytes = 0
