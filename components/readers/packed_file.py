"""One packed shard, open for reading: blocks of small values, and large values one by one.

Data are read, not mapped, because a process dies by a signal if a mapped file is truncated. The
file is mapped only to read the metadata of its batches, which locates the large values.
"""

import io
import os
from functools import lru_cache
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.components.errors import DataError, short_error
from penstock.components.packing.layout import PackedColumn, PackedLayout
from penstock.components.tfrecord.checked import require_stamp

Numbers = npt.NDArray[np.int64]


class PackedFile:
    """The rows of one shard; `columns` are the ones to read.

    After every read of a block, the file's size and modification time are compared with `stamp`.

    Raises:
        DataError: The file is not a packed shard of this layout and number of rows, or it has
            changed.
    """

    def __init__(
        self,
        path: str,
        rows: int,
        layout: PackedLayout,
        columns: tuple[PackedColumn, ...],
        stamp: tuple[int, int],
    ) -> None:
        self._path, self._rows, self._layout, self._stamp = path, rows, layout, stamp
        self.require_unchanged()
        self._raw = io.FileIO(path)
        names = layout.schema.names
        small = [names.index(column.name) for column in columns if not column.is_large]
        self._file = self._opened(pa.OSFile(path), small)
        self.bounds = lru_cache(None)(self._found_bounds)

    def batch(self, number: int) -> pa.RecordBatch:
        """Returns the columns of small values in a batch."""
        batch = self._read(self._file, number)
        self.require_unchanged()
        return batch

    def read_into(self, begin: int, target: npt.NDArray[np.uint8]) -> None:
        """Fills `target` with a large value, which begins at byte `begin` of the file."""
        if os.preadv(self._raw.fileno(), [target.data], begin) != len(target):
            self._refuse("was cut while it was read; start again")

    def require_unchanged(self) -> None:
        require_stamp(self._path, self._stamp)

    def _refuse(self, what: str) -> NoReturn:
        raise DataError(f"{self._path}: {what}")

    def _found_bounds(self, name: str) -> tuple[Numbers, Numbers]:
        """Returns the offsets of a column's large values in the file, and their sizes."""
        self.require_unchanged()
        begins, sizes = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
        with pa.memory_map(self._path) as source:
            file = self._opened(source, [])  # all columns: for a selection, pyarrow copies the data
            at = self._layout.schema.get_field_index(name)
            source.seek(0)
            base = source.read_buffer(1).address
            for number in range(file.num_record_batches):
                column = self._read(file, number).column(at)
                *_, ends, data = column.buffers()
                if pa.types.is_fixed_size_binary(column.type):
                    ends = np.arange(len(column) + 1) * column.type.byte_width
                else:
                    ends = np.frombuffer(ends, np.int64, len(column) + 1)
                begins.append(ends[:-1] + (data.address - base if data is not None else 0))
                sizes.append(np.diff(ends))
        return np.concatenate(begins), np.concatenate(sizes)

    def _opened(self, source: Any, fields: list[int]) -> Any:
        """Returns a reader of some columns, after checking the schema and the number of batches."""
        try:
            options = pa.ipc.IpcReadOptions(included_fields=fields or None)
            file = pa.ipc.open_file(source, options=options)
        except (pa.ArrowInvalid, OSError) as error:
            self.require_unchanged()
            self._refuse(f"not a packed shard, an Arrow file ({short_error(error)}); pack again")
        blocks = -(-self._rows // self._layout.block_rows)
        if file.num_record_batches != blocks:
            self._refuse(
                f"{file.num_record_batches:,} blocks, where {self._rows:,} rows in blocks of "
                f"{self._layout.block_rows:,} make {blocks:,}; pack again"
            )
        schema = self._layout.schema
        if file.schema != pa.schema([schema.field(at) for at in sorted(fields)] or schema):
            self._refuse("other columns than the manifest has; pack again")
        return file

    def _read(self, file: Any, number: int) -> pa.RecordBatch:
        try:
            batch = file.get_batch(number)
        except (pa.ArrowInvalid, OSError) as error:
            self.require_unchanged()
            raise DataError(f"{self._path}: batch {number}: {short_error(error)}") from error
        first = number * self._layout.block_rows
        if batch.num_rows != min(self._layout.block_rows, self._rows - first):
            self._refuse(f"{batch.num_rows:,} rows in batch {number}; pack again")
        return batch
