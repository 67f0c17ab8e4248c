"""Writes shards as Parquet or ArrayRecord files, with the libraries of these formats.

output/
  train-00000.parquet     one file per shard of `Split-train`, with its rows in order
  eval-00000.parquet
"""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.components.errors import UsageError
from penstock.components.files.commit import attempt
from penstock.components.readers.rows import Rows
from penstock.components.tfrecord.checked import checked_manifest
from penstock.components.tfrecord.encoder import encode_examples

ENDINGS = {"parquet": "parquet", "arrayrecord": "array_record"}

# Writes the batches of a shard to a file; there is at least one batch.
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
        to: `parquet`, in which a column of bytes becomes strings if all its values in the split
            are UTF-8; or `arrayrecord`, one tf.train.Example per record, which grain can read.
        splits: Splits to write; by default all.
        on_rows: Called with the number of rows written so far and the number of all rows.

    Returns:
        Number of rows written, by split.

    Raises:
        DataError: There is no manifest, or a shard is damaged.
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
        # For one record, a reader reads its whole group, so grain recommends groups of one record.
        writer = ArrayRecordWriter(str(path), "group_size:1")
        for batch in batches:
            columns = [_plain(column) for column in batch.columns]
            plain = pa.RecordBatch.from_arrays(columns, batch.schema.names)
            for record in encode_examples(plain):
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


def _plain(column: pa.Array) -> pa.Array:
    """Returns a column with all integers as int64, and fixed-size lists as plain lists."""
    kind = column.type
    if pa.types.is_fixed_size_list(kind):
        ends = range(0, kind.list_size * len(column) + 1, kind.list_size)
        return pa.ListArray.from_arrays(pa.array(ends, pa.int32()), _plain(column.flatten()))
    return column.cast(pa.int64()) if pa.types.is_integer(kind) else column


def _text_columns(rows: Rows) -> frozenset[str]:
    """Returns the columns of bytes that are UTF-8 in the whole split, after reading all values."""
    first = next(rows.batches(), None)
    texts = {f.name for f in first.schema if f.type != _as_text(f.type)} if first else set()
    batches = Rows(rows.folder, split=rows.split, columns=[*texts]).batches() if texts else ()
    for batch in batches:
        for name, column in zip(batch.schema.names, batch.columns, strict=True):
            try:
                column.cast(_as_text(column.type))
            except pa.ArrowInvalid:
                texts.discard(name)
    return frozenset(texts)


def _as_text(kind: pa.DataType) -> pa.DataType:
    """Returns the type with text instead of bytes; other types unchanged."""
    if pa.types.is_fixed_size_list(kind):
        return pa.list_(_as_text(kind.value_type), kind.list_size)
    if pa.types.is_list(kind):
        return pa.list_(_as_text(kind.value_type))
    return pa.string() if pa.types.is_binary(kind) else kind
