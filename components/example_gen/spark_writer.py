"""Writes a DataFrame as shards and a manifest, on Spark's executors.

    write_tfrecords(df, "s3a://bucket/trips", splits=SplitOptions(...))

Each partition is a task and becomes one shard of each split: its Arrow batches (`mapInArrow`) are
read like Parquet, and written and counted as in any ingest. No JAR is needed, but the executors
need penstock, and a path or bucket that they and the driver can reach. Spark decides the number of
partitions and may repeat one with its rows in another order. So each attempt writes to a folder of
its own, and the driver renames the files of those attempts that Spark accepted.
"""

import hashlib
import pickle
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from penstock.components.errors import DataError, UsageError
from penstock.components.example_gen.ingest import manifest_of
from penstock.components.example_gen.options import IngestOptions, OnBadRow, Split, SplitOptions
from penstock.components.example_gen.quarantine import QUARANTINE_DIR
from penstock.components.example_gen.shard_task import TaskResult
from penstock.components.example_gen.spark_task import SparkRows, Written, partition_writer
from penstock.components.example_gen.splits import check_partition
from penstock.components.files.output import Output, open_output
from penstock.components.sources.options import NON_FINITE
from penstock.components.sources.spark.types import StepColumn, spark_column, spark_steps
from penstock.components.tfrecord.manifest import MAX_QUARANTINED_SHARE, Manifest
from penstock.components.tfrecord.sharding import shard_name, split_dir

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# Each move takes two requests to an object store.
_MOVED_AT_ONCE = 16


def write_tfrecords(
    df: "DataFrame",
    path: str,
    *,
    splits: SplitOptions | None = None,
    partition_by: str | None = None,
    feature_lists: Sequence[str] = (),
    shards: int | None = None,
    compression: str = "",
    non_finite: str = "reject",
    on_bad_row: OnBadRow = "strict",
    max_quarantined_share: float = MAX_QUARANTINED_SHARE,
    overwrite: bool = False,
) -> Manifest:
    """Writes a DataFrame as sharded TFRecords with a manifest.

    Args:
        df: DataFrame; its columns become features by `docs/data_types.md`, like Parquet's.
        path: Folder to create, which driver and executors can reach, or an address (`s3a://`,
            `s3://`, `gs://`).
        splits: Rule by which rows are divided; None makes train and eval, two rows to one.
        partition_by: A column whose values are the splits, `Split-VALUE/` each; it is in no record.
        feature_lists: Columns of arrays whose values, or arrays of values, are the steps of
            SequenceExamples; the other columns are their context.
        shards: Maximum number of shards per split; None keeps the DataFrame's partitions.
        compression: `""` or `"GZIP"`.
        non_finite: NaN and infinity in columns of floats: `reject`, `null` or `keep`.
        on_bad_row: `strict` stops at a row with a value that fits no feature; `quarantine` stores
            the row and the reason in a separate file and continues.
        max_quarantined_share: Share of all rows above which quarantined rows stop the job.
        overwrite: Whether to replace an output at `path` once the new one is complete.

    Returns:
        The manifest, which is also written to `path`.

    Raises:
        DataError: A value fits no feature; names partition, row and column. Nothing is written to
            `path`.
        UsageError: A column's type, an option or `path` cannot be used.
    """
    options = IngestOptions(
        compression=compression,
        on_bad_row=on_bad_row,
        max_quarantined_share=max_quarantined_share,
    )
    if partition_by is not None and splits is not None:
        raise UsageError("`partition_by` and `splits` both divide the rows; give one of them")
    splits = splits or SplitOptions()
    rows = _rows_of(df, feature_lists, partition_by, non_finite)
    check_partition(splits, rows.columns)
    if shards is not None:
        df = df.repartition(shards)
    df = df.toDF(*map(str, range(len(rows.names))))
    if partition_by is not None:
        at = str(rows.names.index(partition_by))
        df = df.withColumn(at, df[at].cast("string")).sortWithinPartitions(at)
    with open_output(path, overwrite=overwrite) as output:
        written = _written(df, partition_writer(rows, splits, options, output))
        manifest = _manifest(rows, splits, options, _named(written, options, output))
        output.commit(manifest)
    return manifest


def _rows_of(
    df: "DataFrame", feature_lists: Sequence[str], by: str | None, non_finite: str
) -> SparkRows:
    if non_finite not in NON_FINITE:
        raise UsageError(f"`non_finite` must be one of {', '.join(NON_FINITE)}, got {non_finite!r}")
    twice = [name for name, times in Counter(df.columns).items() if times > 1]
    if twice:
        raise UsageError(f"the DataFrame has several columns {twice[0]!r}; rename all but one")
    for option, names in (("feature_lists", feature_lists), ("partition_by", [by] if by else [])):
        if unknown := [name for name in names if name not in df.columns]:
            raise UsageError(
                f"`{option}`: the DataFrame has no column {unknown[0]!r}; it has "
                f"{', '.join(df.columns)}"
            )
    found = [
        (spark_steps if name in feature_lists else spark_column)(name, type_name)
        for name, type_name in df.dtypes
        if name != by
    ]
    return SparkRows(
        kind="spark",
        columns=tuple(column for column in found if not isinstance(column, StepColumn)),
        fingerprint="",
        rows=0,
        files=(),
        input_bytes=0,
        names=tuple(df.columns),
        steps=tuple(column for column in found if isinstance(column, StepColumn)),
        by=by,
        non_finite=non_finite,
    )


def _written(df: "DataFrame", work: Callable[..., Any]) -> list[Written]:
    """Returns the result of each partition's successful attempt, in the order of the partitions."""
    found = df.mapInArrow(work, "result binary").collect()
    results = [pickle.loads(row.result) for row in found]
    results.sort(key=itemgetter(0))  # the partition
    for _, result in results:
        if isinstance(result, DataError):
            raise result
    written = [one for _, result in results for one in result]
    if not sum(one.result.read for one in written):
        raise DataError("the DataFrame has no rows; expected at least one")
    return written


def _named(written: Sequence[Written], options: IngestOptions, output: Output) -> list[TaskResult]:
    counts = Counter(split for one in written for split in one.result.shards)
    before: Counter[str] = Counter()
    moves, results = [], []
    for number, one in enumerate(written):
        shards = {}
        for split, shard in one.result.shards.items():
            name = shard_name(before[split], counts[split], compression=options.compression)
            shards[split] = replace(shard, file=f"{split_dir(split)}/{name}")
            moves.append((f"{one.folder}/{shard.file}", shards[split].file))
            before[split] += 1
        if one.result.quarantined:
            kept = f"{QUARANTINE_DIR}/rejected-{{:05d}}.jsonl".format
            moves.append((f"{one.folder}/{kept(0)}", kept(number)))
        results.append(replace(one.result, shards=shards))
    with ThreadPoolExecutor(_MOVED_AT_ONCE) as pool:
        list(pool.map(lambda move: output.move(*move), moves))
    return results


def _manifest(
    rows: SparkRows, splits: SplitOptions, options: IngestOptions, results: Sequence[TaskResult]
) -> Manifest:
    if rows.by is not None:
        values = sorted({name for result in results for name in result.shards})
        splits = SplitOptions(tuple(map(Split, values)))
    plan = f"{len(results)}: one for each partition of the DataFrame"
    names = [split.name for split in splits.splits]
    manifest = manifest_of([rows], names, plan, options, results)
    # A DataFrame has no content to hash but what was written.
    digests = "".join(shard.sha256 for shard in manifest.shards)
    return replace(manifest, source_fingerprint=hashlib.sha256(digests.encode()).hexdigest())
