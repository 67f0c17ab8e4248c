"""Packs rows directly from a source, without writing Examples in between.

    ingest   pieces of the source -> Arrow batches by split, rejected rows into quarantine
    pack     these batches, kept beside the output -> packed shards

Splits, rows, their order and the row counts equal those of an ingest followed by packing; with the
same number of packed shards, so do the bytes.
"""

import os
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.components.engine.tasks import Engine
from penstock.components.errors import DataError, UsageError
from penstock.components.example_gen.ingest import OnPlanned, plan_inputs, write_inputs
from penstock.components.example_gen.options import IngestInput, IngestOptions, SplitOptions
from penstock.components.example_gen.shard_task import SplitIndices
from penstock.components.example_gen.splits import assign_by_digest, row_digests
from penstock.components.files.commit import beside
from penstock.components.files.output import Output, check_output, open_output, store_address
from penstock.components.packing.options import PackOptions
from penstock.components.packing.pack import write_packed
from penstock.components.packing.rows import BATCH_BYTES, BATCH_ROWS, Kinds, RowSplit, listed
from penstock.components.packing.shuffle import encode_batch, read_encoded
from penstock.components.packing.tasks import plan_packing
from penstock.components.sources.base import Batch, Column
from penstock.components.tfrecord.encoder import encode_examples
from penstock.components.tfrecord.manifest import Manifest, Shard
from penstock.components.tfrecord.writer import ShardWriter


def ingest_packed(
    inputs: Sequence[IngestInput],
    output: str | os.PathLike[str],
    options: IngestOptions | None = None,
    *,
    packing: PackOptions | None = None,
    engine: Engine = 1,
    overwrite: bool = False,
    on_planned: OnPlanned = lambda planned: None,
) -> Manifest:
    options = options or IngestOptions()
    if options.compression or options.parquet_copy:
        raise UsageError("packed records have neither `compression` nor `parquet_copy`")
    packing = replace(packing or PackOptions(), shards=options.shards)
    is_store = store_address(output) is not None
    if is_store and not isinstance(engine, int):
        raise UsageError(
            f"{os.fspath(output)}: with an engine, packed records need a folder that its workers "
            "see; or ingest Examples, and then `penstock pack`"
        )
    check_output(output, overwrite=overwrite)
    planned = plan_inputs(inputs, output, options, engine, on_planned)
    if any(one.source.kind == "tfrecord" for one in planned):
        raise UsageError("TFRecords hold Examples already; pack their folder by penstock pack")
    _check_columns(planned[0].source.columns, packing)
    with TemporaryDirectory() if is_store else beside(Path(os.path.abspath(output))) as folder:
        rows = Path(folder, "rows")
        found = write_inputs(planned, rows, options, engine=engine, write=_write)
        splits = [
            RowSplit(name, tuple(f"{rows}/{one.file}" for one in shards), tuple(shards), _read)
            for name, shards in found.splits.items()
        ]
        if not any(split.rows for split in splits):
            raise DataError(f"{rows}: no rows to pack")
        plan = plan_packing(splits, packing, None)
        with open_output(output, overwrite=overwrite) as opened:
            manifest = _with_origin(write_packed(splits, plan, opened, engine), found)
            _copy_quarantine(found, rows, opened)
            opened.commit(manifest)
    return manifest


def _with_origin(manifest: Manifest, origin: Manifest) -> Manifest:
    names = ("source_kind", "source_fingerprint", "source_files", "account", "quarantine")
    return replace(manifest, **{name: getattr(origin, name) for name in names})


def _copy_quarantine(origin: Manifest, rows: Path, output: Output) -> None:
    if origin.quarantine:
        with output.new_try() as folder:
            shutil.copytree(rows / origin.quarantine, folder / origin.quarantine)
            output.take(folder)


def _check_columns(columns: Sequence[Column], packing: PackOptions) -> None:
    there = [column.name for column in columns]
    for name in (*packing.ids, *(image.name for image in packing.images)):
        if name not in there:
            raise UsageError(f"no column {name!r}; there are {', '.join(sorted(there))}")


def _write(batch: Batch, options: SplitOptions, writers: Sequence[ShardWriter]) -> SplitIndices:
    splits = assign_by_digest(batch.table, _digests(batch), options)
    for i, writer in enumerate(writers):
        rows = batch.table.filter(pa.array(splits == i))
        if rows.num_rows:
            writer.write_rows(rows.num_rows, encode_batch(rows))
    return splits


def _digests(batch: Batch) -> Iterator[bytes]:
    """Yields the digests that decide the splits, as in an ingest; computed only when drawn."""
    if batch.digests is not None:
        yield from batch.digests.to_pylist()
    else:
        yield from row_digests(encode_examples(batch.table))


def _read(file: str, shard: Shard, kinds: Kinds) -> Iterator[pa.RecordBatch]:
    del kinds  # the file itself has them
    with pa.memory_map(file) as mapped:
        batches = list(read_encoded(mapped))
    if sum(batch.num_rows for batch in batches) != shard.rows:
        raise DataError(f"{file}: not the {shard.rows:,} rows that were written; start again")
    if not batches:
        return
    table = pa.Table.from_batches(batches)
    step = max(1, min(BATCH_ROWS, BATCH_BYTES * table.num_rows // max(1, table.nbytes)))
    names = sorted(table.column_names)
    for begin in range(0, table.num_rows, step):
        part = table.slice(begin, step)
        yield pa.RecordBatch.from_arrays([_lists(part.column(name)) for name in names], names)


def _lists(column: Any) -> pa.Array:
    """Returns a column as `RowDecoder` does: lists, or the null type if all are empty."""
    if not pa.types.is_list(column.type):
        return listed(column.combine_chunks())
    lengths = pc.fill_null(pc.list_value_length(column), 0)
    values = pc.list_flatten(column)
    if not len(values):
        return pa.nulls(len(column))
    if values.type == pa.binary():
        values = values.cast(pa.large_binary())
    ends = np.concatenate([[0], np.cumsum(lengths.to_numpy(), dtype=np.int64)])
    return pa.LargeListArray.from_arrays(pa.array(ends), values.combine_chunks())
