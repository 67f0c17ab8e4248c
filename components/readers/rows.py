"""Rows of Penstock's shards as Arrow or NumPy, without TensorFlow.

Input: a folder with a manifest, of row Examples or packed rows. Output: Arrow record batches, in
the order of the shards or of training; or any single row by its index.
"""

import gzip
import io
import mmap
import os
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.components.errors import DataError, UsageError
from penstock.components.packing.layout import PackedLayout
from penstock.components.readers.order import (
    Order,
    RowOrder,
    numpy_permutation,
    tensorflow_permutation,
)
from penstock.components.readers.packed_shards import PackedShards, row_value
from penstock.components.sources.base import Column
from penstock.components.sources.tfrecords.decode import RowDecoder
from penstock.components.tfrecord.checked import checked_manifest, require_stamp, stamp_of
from penstock.components.tfrecord.example_proto import parse_example, unusual_examples, values_of
from penstock.components.tfrecord.feature_kind import FeatureKind
from penstock.components.tfrecord.framing import payload_bounds
from penstock.components.tfrecord.manifest import COUNTED, MANIFEST_NAME, Shard, digest_of
from penstock.components.tfrecord.sharding import (
    READER_PARALLELISM,
    SHUFFLE_WINDOW_ROWS,
    block_rows_of,
)
from penstock.components.tfrecord.unlisted import require_example

_BATCH_ROWS = 4096
# Number of shards that stay open, or decompressed, for access by index.
_KEPT_OPEN, _KEPT_DECOMPRESSED = 256, 16


class Rows:
    """The rows of one split: `len(rows)`, `rows[7]`, `for row in rows`, `rows.batches()`.

    A row is a dict from feature names to values: `int`, `float`, `bytes`, or None if a row Example
    has no value; a NumPy array for lists and for packed features of several values.
    `torch.utils.data.DataLoader` and `grain.MapDataset.source` accept these rows, also with several
    worker processes. `batches` is the fast way to read many rows.

    Args:
        folder: Local folder with a manifest, the output of an ingest or a pack.
        split: Split to read.
        columns: Features to read; by default all.

    Raises:
        DataError: There is no manifest, or a shard differs from it.
        UsageError: There is no such split or column.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        *,
        split: str = "train",
        columns: Sequence[str] | None = None,
    ) -> None:
        self.folder, self.split = Path(folder), split
        manifest = checked_manifest(self.folder)
        if split not in manifest.splits:
            raise UsageError(f"{folder}: no split {split!r}; it has {', '.join(manifest.splits)}")
        self._layout = None
        if manifest.packed is not None:
            path = str(self.folder / MANIFEST_NAME)
            self._layout = PackedLayout.from_dict(manifest.packed, path)
        if manifest.source_kind == COUNTED:
            raise UsageError(
                f"{folder}: its manifest knows no columns, for another writer than Penstock made "
                "the shards; ingest them (--kind tfrecord) or read them with tf.data"
            )
        names = [column.name for column in (self._layout or manifest).columns]
        if unknown := [name for name in columns or () if name not in names]:
            raise UsageError(f"{folder}: no column {unknown[0]!r}; it has {', '.join(names)}")
        self.columns = tuple(names if columns is None else columns)
        self._features = {
            column.name: Column(column.name, FeatureKind(column.kind), is_list=column.is_list)
            for column in manifest.columns
            if self._layout is None
        }
        self.shards: tuple[Shard, ...] = tuple(s for s in manifest.splits[split] if s.rows)
        self._ends = tuple(accumulate(shard.rows for shard in self.shards))
        # number of the first row of each shard
        self._firsts = np.array([0, *self._ends[:-1]])[: len(self.shards)]
        self._stamps = tuple(stamp_of(self._path(at)) for at in range(len(self.shards)))
        self._open()

    def _open(self) -> None:
        is_gzip = any(shard.file.endswith(".gz") for shard in self.shards)
        self._data = lru_cache(_KEPT_DECOMPRESSED if is_gzip else _KEPT_OPEN)(self._read_shard)
        self._bounds: dict[int, npt.NDArray[np.int64]] = {}
        self._read = tuple(self._features[name] for name in self.columns if self._features)
        kinds = {name: column.kind.value for name, column in self._features.items()}
        self._decoder = RowDecoder(kinds, self._read)
        self._packed = None
        if self._layout is not None:
            files = [str(self._path(at)) for at in range(len(self.shards))]
            rows = [shard.rows for shard in self.shards]
            self._packed = PackedShards(
                self._layout, self.columns, files, rows, stamps=self._stamps
            )

    def __getstate__(self) -> dict[str, Any]:
        opened = ("_data", "_bounds", "_decoder", "_packed")
        return {name: value for name, value in vars(self).items() if name not in opened}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._open()

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    def __getitem__(self, row: int) -> dict[str, Any]:
        row = row + len(self) if row < 0 else row
        if not 0 <= row < len(self):
            raise IndexError(f"{self.folder}: row {row} of {len(self):,}")
        if self._packed is not None:
            pairs = zip(self._packed.columns, self._take(np.array([row])).columns, strict=True)
            return {column.name: row_value(array, column) for column, array in pairs}
        at = bisect_right(self._ends, row)
        row -= int(self._firsts[at])
        payload = self._payload(at, row)
        message: Any = parse_example(payload)
        if message is None:
            raise DataError(f"{self._path(at)}: record {row} is no Example")
        require_example(payload, f"{self._path(at)}: record {row}")
        found = message.context.feature
        return {column.name: _value(found, column) for column in self._read}

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return map(self.__getitem__, range(len(self)))

    def batches(
        self,
        *,
        worker: int = 0,
        workers: int = 1,
        batch_size: int | None = None,
        shuffle: bool = False,
        seed: int = 0,
        start: int = 0,
        stride: int = 1,
        shuffle_window_rows: int = SHUFFLE_WINDOW_ROWS,
        epochs: int | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """Returns the rows as Arrow record batches.

        Without `shuffle`, the rows come once, in the order of the shards, and the last batch may be
        short. With `shuffle`, the result is a stream of full batches, endless by default. It equals
        the stream of `penstock.training.Input` with the same seed, batch size and window. Over all
        workers, each pass has each row once.

        Args:
            worker: Index of this worker, from 0.
            workers: Number of workers, which divide the rows equally.
            batch_size: Number of rows per batch of this worker; None yields the blocks of packed
                shards, or up to 4,096 row Examples at a time.
            shuffle: Whether to shuffle the rows; requires a `batch_size`.
            seed: Seed of the shuffled order.
            start: Number of batches to skip, without reading them, to resume where a reader
                stopped.
            stride: With `shuffle`, n to get only every n-th batch, from batch `start` on.
            shuffle_window_rows: Number of rows that are permuted together.
            epochs: With `shuffle`, the number of passes; the last batch of the last pass may be
                short. None means an endless stream.

        Returns:
            Batches with columns of int64, float32, binary or lists of these; in packed shards also
            of int32, uint8, and flat fixed-size lists (for features of several values). In row
            Examples, a missing value is null.

        Raises:
            UsageError: `worker` is not below `workers`; or `shuffle` is set, and `batch_size` is
                None or there are more workers than rows.
        """
        if not 0 <= worker < workers:
            raise UsageError(f"worker must be within 0..{workers - 1}, got {worker}")
        if shuffle:
            order = self._order(worker, workers, seed, shuffle_window_rows)
            end = None if epochs is None else order.rows_before(epochs)
            return self._shuffled(order, batch_size, start, stride, end)
        begin, end = (len(self) * place // workers for place in (worker, worker + 1))
        if batch_size is None:
            return self._stored(begin, end, start)
        firsts = range(begin + start * batch_size, end, batch_size)
        return (self._take(np.arange(row, min(row + batch_size, end))) for row in firsts)

    def batches_of(self, *, epochs: int, batch_size: int, worker: int = 0, workers: int = 1) -> int:
        """Returns the number of shuffled batches that a worker gets in `epochs` passes."""
        order = self._order(worker, workers, 0, SHUFFLE_WINDOW_ROWS)
        return -(-order.rows_before(epochs) // batch_size)

    @property
    def digest(self) -> str:
        """Digest of the split's shards, computed from the digests in the manifest."""
        return digest_of(self.shards)

    def shard_batches(self, at: int) -> Iterator[pa.RecordBatch]:
        """Returns the rows of one shard in order, up to a few thousand per batch."""
        return self._stored(int(self._firsts[at]), self._ends[at], 0)

    def _stored(self, begin: int, end: int, start: int) -> Iterator[pa.RecordBatch]:
        size = self._layout.block_rows if self._layout else _BATCH_ROWS
        for at in range(bisect_right(self._ends, begin), len(self.shards)):
            first = int(self._firsts[at])
            low, high = max(begin, first), min(end, self._ends[at])
            cuts = [low, *range(low + size - (low - first) % size, high, size), high]
            for row, until in pairwise(cuts):
                if row >= until:
                    return
                if start:
                    start -= 1
                else:
                    yield self._take(np.arange(row, until))

    def _order(self, worker: int, workers: int, seed: int, window: int) -> Order:
        if len(self) < workers:
            raise UsageError(f"{self.folder}: {len(self)} rows for {workers} workers; use fewer")
        return Order(
            seed=seed,
            file_bytes=[shard.bytes for shard in self.shards],
            lanes=min(READER_PARALLELISM, len(self.shards)),
            block_rows=self._layout.block_rows if self._layout else block_rows_of(window),
            window=window,
            file_rows=[shard.rows for shard in self.shards],
            shares=workers,
            share=worker,
        )

    def _shuffled(
        self, order: Order, batch_size: int | None, start: int, stride: int, end: int | None
    ) -> Iterator[pa.RecordBatch]:
        if batch_size is None:
            raise UsageError("shuffle needs a batch_size: it decides which rows come together")
        begin = start * batch_size
        permute = numpy_permutation if self._layout else tensorflow_permutation
        numbers = RowOrder(order, self._firsts, permute)
        while end is None or begin < end:
            count = batch_size if end is None else min(batch_size, end - begin)
            yield self._take(numbers.numbers(begin, count))
            begin += stride * batch_size

    def _take(self, numbers: npt.NDArray[np.int64]) -> pa.RecordBatch:
        shards = np.searchsorted(self._ends, numbers, "right")
        rows = numbers - self._firsts[shards]
        if self._packed is not None:
            return self._packed.batch(self._packed.first_numbers[shards] + rows)
        places = list(zip(shards.tolist(), rows.tolist(), strict=True))
        payloads = [self._payload(at, row) for at, row in places]
        batch, faults = self._decoder.decode_typed(payloads, str(self.folder))
        for place, payload in () if self._decoder.is_plain else unusual_examples(payloads):
            at, row = places[place]
            require_example(payload, f"{self._path(at)}: record {row}")
        for place, (feature, reason) in faults.items():
            at, row = places[place]
            raise DataError(f"{self._path(at)}: record {row}, feature {feature!r}: {reason}")
        return batch

    def _path(self, at: int) -> Path:
        return self.folder / self.shards[at].file

    def _payload(self, at: int, record: int) -> bytes:
        data, bounds = self._content(at)
        begin, end = bounds[record].tolist()
        if isinstance(data, bytes):
            return data[begin:end]
        payload = os.pread(data.fileno(), end - begin, begin)
        if len(payload) < end - begin:
            raise DataError(f"{self._path(at)}: was cut while it was read; start again")
        return payload

    def _content(self, at: int) -> tuple[bytes | io.FileIO, npt.NDArray[np.int64]]:
        """Returns an open or decompressed shard, and its payloads' ranges, int64 [records, 2].

        A shard is mapped only while its payloads are located, because a process dies by a signal if
        a mapped file is truncated.
        """
        data = self._data(at)
        if at not in self._bounds:
            if isinstance(data, bytes):
                bounds, is_whole = payload_bounds(data)
            else:
                with mmap.mmap(data.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
                    bounds, is_whole = payload_bounds(mapped)
            records = self.shards[at].rows
            if not is_whole or len(bounds) != records:
                raise DataError(
                    f"{self._path(at)}: has {len(bounds)} whole records, the manifest says "
                    f"{records}"
                )
            self._bounds[at] = bounds
        return data, self._bounds[at]

    def _read_shard(self, at: int) -> bytes | io.FileIO:
        path = self._path(at)
        require_stamp(path, self._stamps[at])
        return gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else io.FileIO(path)


_DTYPES = {FeatureKind.INT: np.int64, FeatureKind.FLOAT: np.float32, FeatureKind.BYTES: object}


def _value(features: Any, column: Column) -> Any:
    values = values_of(features, column.name)
    if not values:
        return None
    return np.array(values, _DTYPES[column.kind]) if column.is_list else values[0]
