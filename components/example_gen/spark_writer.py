"""The way out of Spark: a DataFrame to shards and a manifest, written by Spark's executors.

    write_tfrecords(df, "/mnt/data/trips", splits=SplitOptions(...))

Each partition becomes a shard of each split, encoded from Arrow batches (`mapInArrow`) by the
encoder that every ingest uses; no JAR is needed, but penstock on the executors is, and a path
that they and the driver see and may write to. A task that Spark tries again, or runs twice, writes
files of its own name; only those of the try whose result Spark took are in the manifest, so that
rows are counted once each.
"""

import hashlib
import json
import os
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from penstock.components.errors import DataError, UsageError
from penstock.components.example_gen.options import IngestOptions
from penstock.components.example_gen.split_options import SplitOptions
from penstock.components.example_gen.splits import assign_splits, check_partition
from penstock.components.files.commit import attempt
from penstock.components.sources.arrow_values import to_feature
from penstock.components.sources.base import Column
from penstock.components.sources.batches import batch_of
from penstock.components.sources.option_checks import NON_FINITE
from penstock.components.sources.spark.types import spark_column
from penstock.components.tfrecord.encoder import encode_examples
from penstock.components.tfrecord.frame_batch import frame_records
from penstock.components.tfrecord.manifest import (
    Manifest,
    ManifestColumn,
    RowAccount,
    Shard,
    write_manifest,
)
from penstock.components.tfrecord.sharding import shard_name, split_dir
from penstock.components.tfrecord.writer import ShardWriter

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_TRIES = ".tries"
_RESULT = "result string"


@dataclass(frozen=True)
class _Task:
    """What the executors need to know.

    Attributes:
        columns: The features.
        splits: How rows are divided.
        folder: Where tries are written.
        compression: `""` or `"GZIP"`.
        non_finite: What becomes of NaN and infinity.
    """

    columns: tuple[Column, ...]
    splits: SplitOptions
    folder: str
    compression: str
    non_finite: str


def write_tfrecords(
    df: "DataFrame",
    path: str,
    *,
    splits: SplitOptions | None = None,
    shards: int | None = None,
    compression: str = "",
    non_finite: str = "reject",
    overwrite: bool = False,
) -> Manifest:
    """Write a DataFrame as sharded TFRecords with a manifest.

    Args:
        df: Its columns become features by `docs/data_types.md`, as of Parquet.
        path: Folder to make, seen by the driver and all executors.
        splits: How rows are divided; None gives train and eval two rows to one.
        shards: Shards of each split; None keeps the DataFrame's partitions.
        compression: `""` or `"GZIP"`.
        non_finite: NaN and infinity in columns of floats: `reject` stops, `null` or `keep`.
        overwrite: Replace what stands at `path` once the new output is complete.

    Returns:
        The manifest, which stands in `path` too.

    Raises:
        DataError: A value fits no feature; names partition, row and column. Nothing is at `path`.
        UsageError: A column's type, an option or `path` cannot be used.
    """
    splits = splits or SplitOptions()
    IngestOptions(compression=compression)
    if non_finite not in NON_FINITE:
        raise UsageError(f"`non_finite` must be one of {', '.join(NON_FINITE)}, got {non_finite!r}")
    twice = [name for name, times in Counter(df.columns).items() if times > 1]
    if twice:
        raise UsageError(f"the DataFrame has several columns {twice[0]!r}; rename all but one")
    columns = tuple(spark_column(name, type_name) for name, type_name in df.dtypes)
    check_partition(splits, columns)
    if shards is not None:
        df = df.repartition(shards)
    with attempt(path, overwrite=overwrite) as folder:
        (folder / _TRIES).mkdir()
        task = _Task(columns, splits, str(folder / _TRIES), compression, non_finite)
        results = _run(df, task)
        manifest = _manifest(task, _adopted(results, task, folder), results)
        if not manifest.account.read:
            raise DataError("the DataFrame has no rows; expected at least one")
        write_manifest(folder, manifest)
    return manifest


def _run(df: "DataFrame", task: _Task) -> list[dict[str, Any]]:
    """What each partition's successful try wrote, in the partitions' order."""
    rows = df.mapInArrow(_partition_writer(task), _RESULT).collect()
    results = [json.loads(row.result) for row in rows]
    results.sort(key=lambda result: result["partition"])
    for result in results:
        if result["error"]:
            raise DataError(result["error"])
    return results


def _partition_writer(
    task: _Task,
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def write(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None, "Spark's executors call this within a task"
        partition, attempt_id = context.partitionId(), context.taskAttemptId()
        result: dict[str, Any] = {"partition": partition, "try": attempt_id, "error": None}
        try:
            result |= _write_partition(batches, task, partition, attempt_id)
        except DataError as error:
            # A result and no failure: Spark would try four times what cannot succeed.
            result["error"] = str(error)
        yield pa.RecordBatch.from_arrays([pa.array([json.dumps(result)])], names=["result"])

    return write


def _write_partition(
    batches: Iterable[pa.RecordBatch], task: _Task, partition: int, attempt_id: int
) -> dict[str, Any]:
    """Write one partition's shards in a folder of this try's own."""
    folder = _try_folder(task.folder, partition, attempt_id)
    os.mkdir(folder)  # not its parents: where they are gone the work is over
    read = 0
    with ExitStack() as stack:
        writers = [
            stack.enter_context(ShardWriter(folder, split.name, compression=task.compression))
            for split in task.splits.splits
        ]
        for batch in batches:
            table = _features(batch, task, partition, read)
            records = encode_examples(table)
            places = assign_splits(table, records, task.splits)
            framed = frame_records(records)
            for at, writer in enumerate(writers):
                writer.write(framed.filter(pa.array(places == at)))
            read += batch.num_rows
        shards = [asdict(writer.finish()) for writer in writers]
    return {"read": read, "shards": shards}


def _try_folder(tries: str, partition: int, attempt_id: int) -> str:
    return os.path.join(tries, f"{partition:05d}-{attempt_id}")


def _features(
    batch: pa.RecordBatch, task: _Task, partition: int, rows_before: int
) -> pa.RecordBatch:
    arrays = []
    for column, values in zip(task.columns, batch.columns, strict=True):
        array, faults = to_feature(values, column, task.non_finite)
        if faults:
            row = min(faults)
            raise DataError(
                f"partition {partition}, row {rows_before + row + 1}, column {column.name!r}: "
                f"{faults[row]}"
            )
        arrays.append(array)
    return batch_of(task.columns, arrays)


def _adopted(
    results: Sequence[Mapping[str, Any]], task: _Task, folder: Path
) -> dict[str, tuple[Shard, ...]]:
    """Give the files of the tries that count their shards' names, and drop the others."""
    found: dict[str, list[Shard]] = {split.name: [] for split in task.splits.splits}
    for index, result in enumerate(results):
        name = shard_name(index, len(results), compression=task.compression)
        source = Path(_try_folder(task.folder, result["partition"], result["try"]))
        for written in result["shards"]:
            split = written["file"]
            target = folder / split_dir(split) / name
            target.parent.mkdir(exist_ok=True)
            os.rename(source / split, target)
            found[split].append(Shard(**{**written, "file": f"{split_dir(split)}/{name}"}))
    # Tries that failed, or that were run beside the one that counts.
    shutil.rmtree(task.folder, ignore_errors=True)
    return {split: tuple(shards) for split, shards in found.items()}


def _manifest(
    task: _Task, splits: Mapping[str, Sequence[Shard]], results: Sequence[Mapping[str, Any]]
) -> Manifest:
    columns = tuple(ManifestColumn(c.name, c.kind.value, c.is_list) for c in task.columns)
    text = json.dumps([asdict(column) for column in columns])
    shards = [shard.sha256 for group in splits.values() for shard in group]
    return Manifest(
        splits=splits,
        columns=columns,
        schema_sha256=hashlib.sha256(text.encode()).hexdigest(),
        source_kind="spark",
        # A DataFrame has no content to hash but what was written.
        source_fingerprint=hashlib.sha256("".join(shards).encode()).hexdigest(),
        source_files=0,
        account=RowAccount(
            read=int(np.sum([result["read"] for result in results], dtype=np.int64)),
            written={name: sum(s.rows for s in group) for name, group in splits.items()},
        ),
        compression=task.compression,
        plan=f"{len(results)}: one for each partition of the DataFrame",
    )
