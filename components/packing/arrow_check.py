"""Checks packed shards, for `inspect` and `verify`."""

import os
from pathlib import Path

import pyarrow as pa

from penstock.components.errors import DataError, short_error
from penstock.components.packing.layout import PackedLayout
from penstock.components.tfrecord.records import open_file

_MAGIC = b"ARROW1"


def is_packed(path: str | os.PathLike[str]) -> bool:
    """Returns whether a file begins as Arrow files do."""
    with open_file(path) as file:
        return file.read(len(_MAGIC)) == _MAGIC


def packed_rows(path: Path, layout: PackedLayout | None = None) -> tuple[int, int]:
    """Returns the numbers of batches and rows of a shard, once every value was looked at.

    Raises:
        DataError: It is no whole Arrow file, or with a `layout`, not one of this layout.
    """
    rows = number = 0
    try:
        with pa.OSFile(str(path)) as source:
            file = pa.ipc.open_file(source)
            if layout is not None and file.schema != layout.schema:
                raise DataError(f"{path}: other columns than the manifest has; pack again")
            for number in range(file.num_record_batches):
                batch = file.get_batch(number)
                batch.validate(full=True)
                if layout is not None and batch.num_rows > layout.block_rows:
                    raise DataError(
                        f"{path}: batch {number} has {batch.num_rows:,} rows, at most "
                        f"{layout.block_rows:,} as the manifest says"
                    )
                rows += batch.num_rows
            return file.num_record_batches, rows
    except (pa.ArrowException, OSError) as error:
        raise DataError(f"{path}: batch {number}: {short_error(error)}") from error
