"""Writes shards in the formats of other readers, with their own libraries; counts every row.

output/
  train-00000.parquet     one file per shard of `Split-train`, in the order of its rows
  eval-00000.parquet
"""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.components.errors import DataError, UsageError
from penstock.components.files.commit import attempt
from penstock.components.readers.rows import Rows
from penstock.components.tfrecord.checked import checked_manifest
from penstock.components.tfrecord.encoder import encode_examples

ENDINGS = {"parquet": "parquet", "arrayrecord": "array_record"}

# Writes the batches of a shard, of which there is at least one, to a file.
Write = Callable[[Path, Iterable[pa.RecordBatch]], None]


def export(
    folder: str | os.PathLike[str],
    output: str | os.PathLike[str],
    *,
    to: str,
    splits: Sequence[str] = (),
    on_rows: Callable[[int, int | None], None] | None = None,
) -> dict[str, int]:
    """Writes the rows of shards, row Examples or packed, in another format.

    Args:
        folder: A folder with a manifest.
        output: Folder to create; it appears complete or not at all.
        to: `parquet`, in which a column is a string if it is UTF-8 in the whole split; or
            `arrayrecord`, one tf.train.Example per record, which grain can read.
        splits: Splits to write; by default all.
        on_rows: Called with the number of rows written so far and the number of all rows.

    Returns:
        Number of rows written, by split.

    Raises:
        DataError: A shard is damaged.
        UsageError: The format is unknown, its library is not installed, or `output` exists.
    """
    if to not in ENDINGS:
        raise UsageError(f"no format {to!r}; choices: {', '.join(ENDINGS)}")
    manifest = checked_manifest(folder)
    found = {split: Rows(folder, split=split) for split in splits or manifest.splits}
    total = sum(map(len, found.values()))
    done = dict.fromkeys(found, 0)

    def counted(split: str, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield batch
            done[split] += batch.num_rows
            if on_rows:
                on_rows(sum(done.values()), total)

    with attempt(output, overwrite=None) as made:
        for split, rows in found.items():
            write = _writer(to, rows)
            for at in range(len(rows.shards)):
                path = made / f"{split}-{at:05d}.{ENDINGS[to]}"
                write(path, counted(split, rows.shard_batches(at)))
            if done[split] != len(rows):
                raise DataError(
                    f"{folder}: split {split!r} gave {done[split]:,} rows, its manifest says "
                    f"{len(rows):,}"
                )
    return done


def _writer(to: str, rows: Rows) -> Write:
    if to == "parquet":
        texts = _text_columns(rows)
        return lambda path, batches: _write_parquet(path, batches, texts)
    try:
        from array_record.python.array_record_module import ArrayRecordWriter
    except ImportError as error:
        raise UsageError(
            f"--to {to} needs a package that is not installed ({error.name}): "
            "pip install 'penstock-tfx[bench]'"
        ) from error

    def write(path: Path, batches: Iterable[pa.RecordBatch]) -> None:
        # A reader always reads the whole group of a record; grain advises groups of one record.
        writer = ArrayRecordWriter(str(path), "group_size:1")
        for batch in batches:
            for record in encode_examples(_plain_types(batch)):
                writer.write(record.as_py())
        writer.close()

    return write


def _write_parquet(path: Path, batches: Iterable[pa.RecordBatch], texts: frozenset[str]) -> None:
    writer = None
    for batch in batches:
        columns = zip(batch.schema.names, batch.columns, strict=True)
        table = pa.table({n: c.cast(_as_text(c.type)) if n in texts else c for n, c in columns})
        writer = writer or pq.ParquetWriter(path, table.schema)
        writer.write_table(table)
    if writer:
        writer.close()


def _plain_types(batch: pa.RecordBatch) -> pa.RecordBatch:
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
    """Returns the columns of bytes that are UTF-8 in the whole split; reads all of their values."""
    first = next(rows.batches(), None)
    binary = [field.name for field in first.schema if _is_binary(field.type)] if first else []
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


def _is_binary(kind: pa.DataType) -> bool:
    is_list = pa.types.is_list(kind) or pa.types.is_fixed_size_list(kind)
    return pa.types.is_binary(kind.value_type if is_list else kind)


def _as_text(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_fixed_size_list(kind):
        return pa.list_(pa.string(), kind.list_size)
    return pa.list_(pa.string()) if pa.types.is_list(kind) else pa.string()
