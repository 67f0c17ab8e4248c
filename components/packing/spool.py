"""A source in, packed records out, without an Example on the way.

    ingest   pieces of the source -> Arrow batches by split, rejected rows into quarantine
    pack     these batches, beside the output meanwhile -> packed shards

Splits, rows, their order and the account are those of an ingest whose shards are then packed; so
are the bytes, where both have the same number of packed shards.
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.components.errors import DataError, UsageError
from penstock.components.example_gen.ingest import Watch as WatchIngest
from penstock.components.example_gen.ingest import ingest, require_input_elsewhere
from penstock.components.example_gen.options import IngestOptions
from penstock.components.example_gen.shard_task import Places
from penstock.components.example_gen.split_options import SplitOptions
from penstock.components.example_gen.splits import assign_by_digest, row_digests
from penstock.components.example_gen.stage import MakePipeline
from penstock.components.example_gen.write_shards import Job
from penstock.components.files.commit import beside
from penstock.components.files.output import check_output, store_address
from penstock.components.packing.options import PackOptions
from penstock.components.packing.pack import Watch, pack
from penstock.components.packing.rows import BATCH_BYTES, BATCH_ROWS, Kinds, RowSplit
from penstock.components.packing.shuffle import encode_batch, read_encoded
from penstock.components.sources.base import Batch, Column
from penstock.components.tfrecord.encoder import encode_examples
from penstock.components.tfrecord.manifest import Manifest, Shard
from penstock.components.tfrecord.writer import ShardWriter


def pack_source(
    jobs: Sequence[Job],
    output: str | os.PathLike[str],
    options: IngestOptions,
    make_pipeline: MakePipeline,
    *,
    packing: PackOptions,
    overwrite: bool = False,
    watch: WatchIngest = lambda rows_done: nullcontext(),
    watch_packing: Watch = lambda rows_done, rows: nullcontext(),
) -> Manifest:
    """Pack the rows of sources; all of the output appears at once, or nothing.

    The manifest has the account of the ingest. Arguments are those of `ingest`, workers elsewhere
    must see the folder of `output`; `packing` is what to keep and how, of all splits.

    Raises:
        DataError: The data is bad; nothing is left at `output`.
        UsageError: `output` cannot be used, or a source's rows are Examples already.
    """
    if any(job.source.kind == "tfrecord" for job in jobs):
        raise UsageError("TFRecords hold Examples already; pack their folder by penstock pack")
    _check_columns(jobs[0].source.columns, packing)
    check_output(output, overwrite=overwrite)
    require_input_elsewhere(jobs, os.fspath(output))
    is_local = store_address(output) is None
    with beside(Path(os.path.abspath(output))) if is_local else TemporaryDirectory() as folder:
        rows = f"{folder}/rows"
        found = ingest(jobs, rows, options, make_pipeline, watch=watch, write=_write)
        splits = [
            RowSplit(name, tuple(f"{rows}/{one.file}" for one in shards), tuple(shards), _read)
            for name, shards in found.splits.items()
        ]
        return pack(
            rows,
            output,
            packing,
            overwrite=overwrite,
            make_pipeline=make_pipeline,
            watch=watch_packing,
            origin=(found, splits),
        )


def _check_columns(columns: Sequence[Column], packing: PackOptions) -> None:
    """Refuse names of no column before all is read."""
    there = [column.name for column in columns]
    for name in (*packing.ids, *(image.name for image in packing.images)):
        if name not in there:
            raise UsageError(f"no column {name!r}; there are {', '.join(sorted(there))}")


def _write(batch: Batch, options: SplitOptions, writers: Sequence[ShardWriter]) -> Places:
    """Append rows as Arrow batches; says each one's split."""
    splits = assign_by_digest(batch.table, _digests(batch), options)
    for i, writer in enumerate(writers):
        rows = batch.table.filter(pa.array(splits == i))
        if rows.num_rows:
            writer.write_rows(rows.num_rows, encode_batch(rows))
    return splits


def _digests(batch: Batch) -> Iterator[bytes]:
    """What decides of each row's split, as an ingest has it; reckoned when it is asked for."""
    if batch.digests is not None:
        yield from batch.digests.to_pylist()
    else:
        yield from row_digests(encode_examples(batch.table))


def _read(file: str, shard: Shard, kinds: Kinds) -> Iterator[pa.RecordBatch]:
    """The rows of a file of Arrow batches, as `read_examples` gives those of a shard."""
    del kinds  # the source had them
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
    """A source's column as `RowDecoder` gives it: lists, or of type null where all are empty."""
    if pa.types.is_list(column.type):
        lengths = pc.fill_null(pc.list_value_length(column), 0)
        values = pc.list_flatten(column)
    else:
        lengths, values = column.is_valid().cast(pa.int64()), column.drop_null()
    if not len(values):
        return pa.nulls(len(column))
    if values.type == pa.binary():
        values = values.cast(pa.large_binary())
    ends = np.concatenate([[0], np.cumsum(lengths.to_numpy(), dtype=np.int64)])
    return pa.LargeListArray.from_arrays(pa.array(ends), values.combine_chunks())
