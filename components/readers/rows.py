"""Rows of Penstock shards as Arrow and NumPy, without TensorFlow.

Flows in: a folder with a manifest, of row Examples or packed. Flows out: Arrow record batches in
the order of the shards, or any row by its number.
"""

import gzip
import mmap
import os
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.components.errors import DataError, UsageError
from penstock.components.packing.block import column_values, decode_block
from penstock.components.packing.layout import PackedColumn, PackedLayout
from penstock.components.sources.base import ARROW_TYPES, Column
from penstock.components.sources.tfrecords.decode import RecordDecoder
from penstock.components.tfrecord.checked import checked_manifest
from penstock.components.tfrecord.example_proto import parse_example
from penstock.components.tfrecord.feature_kind import FeatureKind
from penstock.components.tfrecord.framing import payload_bounds
from penstock.components.tfrecord.manifest import COUNTED, MANIFEST_NAME, Shard

_BATCH_ROWS = 4096
# Shards kept open, and packed blocks kept decoded, for access by number.
_KEPT_SHARDS, _KEPT_BLOCKS = 16, 8


class Rows:
    """The rows of one split: `len(rows)`, `rows[7]`, `for row in rows`, `rows.batches()`.

    A row is a dict of the features' values by name: `int`, `float`, `bytes`, None where a row
    Example has no value; a NumPy array of lists and of packed shapes. That is what
    `torch.utils.data.DataLoader` and `grain.MapDataset.source` take as they stand; it can be sent
    to their workers. `batches` is the quicker way to rows in order.

    Args:
        folder: A local folder with a manifest: an ingest's or a pack's output.
        split: The split to read.
        columns: The features to read; all by default.

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
        names = [column.name for column in manifest.columns]
        if self._layout is not None:
            names = [column.name for column in self._layout.columns]
        if unknown := [name for name in columns or () if name not in names]:
            raise UsageError(f"{folder}: no column {unknown[0]!r}; it has {', '.join(names)}")
        self.columns = tuple(names if columns is None else columns)
        by_name = {column.name: column for column in manifest.columns}
        self._features = tuple(
            Column(name, FeatureKind(by_name[name].kind), is_list=by_name[name].is_list)
            for name in self.columns
            if self._layout is None
        )
        self.shards: tuple[Shard, ...] = tuple(s for s in manifest.splits[split] if s.rows)
        self._ends = tuple(accumulate(shard.rows for shard in self.shards))
        self._open()

    def _open(self) -> None:
        self._shard = lru_cache(_KEPT_SHARDS)(self._read_shard)
        self._block = lru_cache(_KEPT_BLOCKS)(self._read_block)
        self._decoder = RecordDecoder(self._features) if self._features else None

    def __getstate__(self) -> dict[str, Any]:
        return {k: v for k, v in vars(self).items() if k not in ("_shard", "_block", "_decoder")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._open()

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    def __getitem__(self, row: int) -> dict[str, Any]:
        row = row + len(self) if row < 0 else row
        if not 0 <= row < len(self):
            raise IndexError(f"{self.folder}: row {row} of {len(self):,}")
        at = bisect_right(self._ends, row)
        in_shard = row - (self._ends[at] - self.shards[at].rows)
        if self._layout is None:
            data, bounds = self._shard(at)
            return self._parsed(_payload(data, bounds, in_shard))
        block, in_block = divmod(in_shard, self._layout.block_rows)
        return {name: _plain(values[in_block]) for name, values in self._block(at, block).items()}

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return map(self.__getitem__, range(len(self)))

    def batches(self, *, worker: int = 0, workers: int = 1) -> Iterator[pa.RecordBatch]:
        """The rows in the order of the shards, some thousand in a batch.

        Args:
            worker: Which of the workers reads, from 0.
            workers: How many share the rows, a shard each in turn.

        Returns:
            Batches of int64, float32 and binary columns, of lists, and of fixed-size lists of
            packed shapes, flat; a null is no value.
        """
        shards = range(worker, len(self.shards), workers)
        if self._layout is not None:
            yield from map(self._arrow, self._blocks(shards))
            return
        for at in shards:
            rows = self.shards[at].rows
            for start in range(0, rows, _BATCH_ROWS):
                yield self._decoded(at, start, min(start + _BATCH_ROWS, rows))

    def _blocks(self, shards: Iterable[int]) -> Iterator[dict[str, Any]]:
        for at in shards:
            for block in range(len(self._shard(at)[1])):
                yield self._read_block(at, block)

    def _read_shard(self, at: int) -> tuple[Any, npt.NDArray[np.int64]]:
        """The bytes of a shard, mapped unless they are compressed, and where its records lie."""
        shard = self.shards[at]
        path = self.folder / shard.file
        with path.open("rb") as file:
            if path.suffix == ".gz":
                data: Any = gzip.decompress(file.read())
            else:
                data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        bounds, is_whole = payload_bounds(data)
        rows = shard.rows if self._layout is None else -(-shard.rows // self._layout.block_rows)
        if not is_whole or len(bounds) != rows:
            raise DataError(f"{path}: has {len(bounds)} whole records, the manifest says {rows}")
        return data, bounds

    def _parsed(self, payload: bytes) -> dict[str, Any]:
        """One Example: at 20 us, where a batch of one costs the decoder a thousand."""
        message: Any = parse_example(payload)
        if message is None:
            raise DataError(f"{self.folder}: a record of split {self.split!r} is no Example")
        found = message.context.feature
        return {column.name: _value(found, column) for column in self._features}

    def _decoded(self, at: int, start: int, end: int) -> pa.RecordBatch:
        assert self._decoder is not None
        data, bounds = self._shard(at)
        batch, faults = self._decoder.decode(
            [_payload(data, bounds, row) for row in range(start, end)]
        )
        for row, (feature, reason) in faults.items():
            where = f"{self.folder / self.shards[at].file}: record {start + row}"
            raise DataError(f"{where}, feature {feature!r}: {reason}")
        return batch

    def _read_block(self, at: int, block: int) -> dict[str, Any]:
        assert self._layout is not None
        data, bounds = self._shard(at)
        shapes = {column.name: column.shape for column in self._layout.columns}
        values = column_values(
            decode_block(_payload(data, bounds, block), self._layout), self._layout
        )
        return {
            name: values[name][:, 0] if shapes[name] == (1,) else values[name]
            for name in self.columns
        }

    def _arrow(self, values: dict[str, Any]) -> pa.RecordBatch:
        assert self._layout is not None
        by_name = {column.name: column for column in self._layout.columns}
        arrays = [_array(values[name], by_name[name]) for name in self.columns]
        return pa.RecordBatch.from_arrays(arrays, list(self.columns))


def _payload(data: Any, bounds: npt.NDArray[np.int64], record: int) -> bytes:
    begin, end = bounds[record].tolist()
    return bytes(data[begin:end])


def _array(values: Any, column: PackedColumn) -> pa.Array:
    """A packed column as Arrow has it."""
    kind = pa.from_numpy_dtype(values.dtype) if column.storage in ("uint8", "int32") else None
    kind = kind or ARROW_TYPES[FeatureKind(column.kind)]
    if column.storage == "list":
        return pa.array(values, pa.list_(kind))
    flat = pa.array(values.reshape(-1), kind)
    return flat if values.ndim == 1 else pa.FixedSizeListArray.from_arrays(flat, column.width)


_LISTS = {FeatureKind.INT: "int64_list", FeatureKind.FLOAT: "float_list"}
_DTYPES = {FeatureKind.INT: np.int64, FeatureKind.FLOAT: np.float32, FeatureKind.BYTES: object}


def _value(features: Any, column: Column) -> Any:
    if column.name not in features:
        return None
    values = getattr(features[column.name], _LISTS.get(column.kind, "bytes_list")).value
    if not values:
        return None
    return np.array(values, _DTYPES[column.kind]) if column.is_list else values[0]


def _plain(value: Any) -> Any:
    """A number of an array as Python has it; arrays and bytes as they are."""
    if isinstance(value, list):
        return np.array(value, object)
    return value.item() if isinstance(value, np.generic) else value
