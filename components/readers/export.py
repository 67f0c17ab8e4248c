"""Shards out in the formats of other readers, every row accounted for, by their own libraries.

output/
  train-00000.parquet     a file for each shard of `Split-train`, in the order of its rows
  eval-00000.parquet
"""

import io
import itertools
import json
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from penstock.components import image_features
from penstock.components.errors import DataError, UsageError
from penstock.components.files.commit import attempt
from penstock.components.readers.rows import Rows
from penstock.components.tfrecord.checked import checked_manifest
from penstock.components.tfrecord.encoder import encode_examples

ENDINGS = {"parquet": "parquet", "arrayrecord": "array_record", "webdataset": "tar", "mds": ""}

Write = Callable[[pa.RecordBatch], None]
# Writes a batch; ends the file.
Opened = tuple[Write, Callable[[], Any]]


def export(
    folder: str | os.PathLike[str],
    output: str | os.PathLike[str],
    *,
    to: str,
    splits: Sequence[str] = (),
    on_rows: Callable[[int, int | None], None] | None = None,
) -> dict[str, int]:
    """Write the rows of shards, row Examples or packed, in another format.

    Args:
        folder: A folder with a manifest.
        output: The folder to make; appears complete or not at all.
        to: `parquet`, texts as strings where all of a split's are UTF-8; `arrayrecord`, a
            tf.train.Example a record, as grain reads it; `webdataset`, a tar member for the
            image, one for the class and one, `.json`, for the other features, or an `.npz` of
            packed arrays; `mds`, a folder a split, by MosaicML's library.
        splits: The splits to write; all by default.
        on_rows: Told how many rows are done, of how many.

    Returns:
        Rows written by split.

    Raises:
        DataError: A shard is damaged.
        UsageError: The format is unknown, its library is not installed, or `output` is taken.
    """
    if to not in ENDINGS:
        raise UsageError(f"no format {to!r}; choices: {', '.join(ENDINGS)}")
    manifest = checked_manifest(folder)
    found = {split: Rows(folder, split=split) for split in splits or manifest.splits}
    total = sum(map(len, found.values()))
    done: dict[str, int] = {}
    with attempt(output, overwrite=None) as folder_made:
        for split, rows in found.items():
            done[split] = 0
            open_file = _opener(to, rows)
            # MDS has an index over the files of a folder, and makes files of its own sizes.
            files = 1 if to == "mds" else len(rows.shards)
            for at in range(files):
                name = split if to == "mds" else f"{split}-{at:05d}.{ENDINGS[to]}"
                with ExitStack() as stack:
                    write, end = open_file(folder_made / name)
                    stack.callback(end)
                    for batch in rows.batches(worker=at, workers=files):
                        write(batch)
                        done[split] += batch.num_rows
                        if on_rows:
                            on_rows(sum(done.values()), total)
            if done[split] != len(rows):
                raise DataError(
                    f"{folder}: split {split!r} gave {done[split]:,} rows, its manifest says "
                    f"{len(rows):,}"
                )
    return done


def _opener(to: str, rows: Rows) -> Callable[[Path], Opened]:
    """What opens each file, by the library of its format."""
    try:
        if to == "arrayrecord":
            from array_record.python.array_record_module import ArrayRecordWriter

            return lambda path: _array_record(path, ArrayRecordWriter)
        if to == "webdataset":
            from webdataset import TarWriter

            return lambda path: _tar(path, TarWriter)
        if to == "mds":
            from streaming import MDSWriter

            return lambda path: _mds(path, MDSWriter, rows)
    except ImportError as error:
        package = "mosaicml-streaming" if to == "mds" else "'penstock[bench]'"
        raise UsageError(
            f"--to {to} needs a package that is not installed ({error.name}): pip install {package}"
        ) from error
    texts = _text_columns(rows)
    return lambda path: _parquet(path, texts)


def _parquet(path: Path, texts: frozenset[str]) -> Opened:
    writer: pq.ParquetWriter | None = None

    def write(batch: pa.RecordBatch) -> None:
        nonlocal writer
        table = pa.table(
            {
                name: column.cast(_as_text(column.type)) if name in texts else column
                for name, column in zip(batch.schema.names, batch.columns, strict=True)
            }
        )
        writer = writer or pq.ParquetWriter(path, table.schema)
        writer.write_table(table)

    return write, lambda: writer and writer.close()


def _array_record(path: Path, make: Any) -> Opened:
    # Any record by its number costs the group that it is in: of one record, as grain advises.
    writer = make(str(path), "group_size:1")

    def write(batch: pa.RecordBatch) -> None:
        for record in encode_examples(_plain_types(batch)):
            writer.write(record.as_py())

    return write, writer.close


def _tar(path: Path, make: Any) -> Opened:
    # Equal rows give equal bytes: no owner, no time.
    writer = make(str(path), encoder=False, mtime=0, user="", group="")
    numbers = itertools.count()

    def write(batch: pa.RecordBatch) -> None:
        for row in batch.to_pylist():
            writer.write({"__key__": f"{path.stem}-{next(numbers):09d}", **_members(row)})

    return write, writer.close


def _mds(path: Path, make: Any, rows: Rows) -> Opened:
    texts = _text_columns(rows)
    columns = {name: _mds_encoding(kind, name in texts) for name, kind in _types(rows).items()}
    writer = make(out=str(path), columns=columns, hashes=["sha1"])

    def write(batch: pa.RecordBatch) -> None:
        for name, column in zip(batch.schema.names, batch.columns, strict=True):
            if column.null_count:
                raise DataError(
                    f"{rows.folder}: column {name!r} has rows without a value, which MDS cannot "
                    "hold; pack with --on-missing fill, and export that"
                )
        for row in batch.to_pylist():
            writer.write({name: _mds_value(row[name], kind) for name, kind in columns.items()})

    return write, writer.finish


def _mds_encoding(kind: pa.DataType, is_text: bool) -> str:
    """The name that MDS has for a column's type."""
    if _values(kind) != kind:
        return "json" if _is_binary(kind) else f"ndarray:{_values(kind).to_pandas_dtype().__name__}"
    if _is_binary(kind):
        return "str" if is_text else "bytes"
    return str(np.dtype(kind.to_pandas_dtype()))


def _mds_value(value: Any, encoding: str) -> Any:
    if encoding.startswith("ndarray:"):
        return np.array(value, encoding.partition(":")[2])
    if encoding == "str":
        return value.decode()
    if encoding in ("bytes", "json"):
        return _json(value) if encoding == "json" else value
    return np.dtype(encoding).type(value)


def _members(row: Mapping[str, Any]) -> dict[str, bytes]:
    """A row as the members of a tar: `jpg`, `cls`, and the rest as `json`."""
    left = dict(row)
    members = {}
    if encoded := left.pop(image_features.ENCODED, None):
        kind = (left.pop(image_features.FORMAT, None) or b"jpeg").decode().lower()
        members["jpg" if kind == "jpeg" else kind] = encoded
    if (label := left.pop(image_features.LABEL, None)) is not None:
        members["cls"] = str(label).encode()
    if arrays := {k: v for k, v in left.items() if isinstance(v, list) and len(v) > _MANY_VALUES}:
        file = io.BytesIO()
        np.savez(file, **{name: np.asarray(values) for name, values in arrays.items()})
        members["npz"] = file.getvalue()
    if rest := {name: _json(value) for name, value in left.items() if name not in arrays}:
        members["json"] = json.dumps(rest, ensure_ascii=False).encode()
    return members


# A packed image is no matter for JSON.
_MANY_VALUES = 256


def _json(value: Any) -> Any:
    if isinstance(value, list):
        return [_json(part) for part in value]
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return {"hex": value.hex()}
    return value


def _plain_types(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The types that an Example has: fixed-size lists as lists, small integers as int64."""
    arrays = []
    for column in batch.columns:
        if pa.types.is_fixed_size_list(column.type):
            width = column.type.list_size
            offsets = pa.array(range(0, width * len(column) + 1, width), pa.int32())
            column = pa.ListArray.from_arrays(offsets, column.flatten())
        values = column.type.value_type if pa.types.is_list(column.type) else column.type
        if pa.types.is_integer(values):
            wide = pa.list_(pa.int64()) if pa.types.is_list(column.type) else pa.int64()
            column = column.cast(wide)
        arrays.append(column)
    return pa.RecordBatch.from_arrays(arrays, batch.schema.names)


def _text_columns(rows: Rows) -> frozenset[str]:
    """The columns of bytes that are UTF-8 throughout the split: a pass of its own over them."""
    binary = [name for name, kind in _types(rows).items() if _is_binary(kind)]
    texts = set(binary)
    if not binary:
        return frozenset()
    for batch in Rows(rows.folder, split=rows.split, columns=binary).batches():
        for name in tuple(texts):
            column = batch.column(batch.schema.get_field_index(name))
            try:
                column.cast(_as_text(column.type))
            except pa.ArrowInvalid:
                texts.discard(name)
    return frozenset(texts)


def _types(rows: Rows) -> dict[str, pa.DataType]:
    batch = next(rows.batches(), None)
    return {} if batch is None else dict(zip(batch.schema.names, batch.schema.types, strict=True))


def _is_binary(kind: pa.DataType) -> bool:
    return pa.types.is_binary(_values(kind))


def _values(kind: pa.DataType) -> pa.DataType:
    is_list = pa.types.is_list(kind) or pa.types.is_fixed_size_list(kind)
    return kind.value_type if is_list else kind


def _as_text(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_fixed_size_list(kind):
        return pa.list_(pa.string(), kind.list_size)
    return pa.list_(pa.string()) if pa.types.is_list(kind) else pa.string()
