"""Writes a DataFrame as shards and a manifest, on Spark's executors.

    write_tfrecords(df, "s3a://bucket/trips", splits=SplitOptions(...))

Each partition is a task, and becomes one shard of each split. Its Arrow batches (from `mapInArrow`)
are converted like those of a Parquet file; their rows are written and counted as in any ingest. No
JAR is needed, but the executors need penstock, and a path or bucket that they and the driver can
reach. Spark may repeat a partition, with its rows in another order. So each attempt writes to a
folder of its own, and the driver renames the files of the attempts that Spark accepted.
"""

import pickle
import socket
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from penstock.components.errors import DataError, PenstockError, TriesFailedError, UsageError
from penstock.components.example_gen.ingest import manifest_of
from penstock.components.example_gen.options import IngestOptions, OnBadRow, SplitOptions
from penstock.components.example_gen.shard_task import (
    QUARANTINE_DIR,
    ShardTask,
    TaskResult,
    write_files,
)
from penstock.components.example_gen.splits import check_partition
from penstock.components.files.output import WORK_DIR, Output, open_output
from penstock.components.sources.arrow_values import feature_type
from penstock.components.sources.base import Batch, Column, Piece, Source
from penstock.components.sources.columnar import as_features
from penstock.components.sources.options import NON_FINITE
from penstock.components.tfrecord.manifest import MAX_QUARANTINED_SHARE, Manifest, digest_of
from penstock.components.tfrecord.sharding import shard_name, split_dir

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# Number of files that are renamed at the same time. At an object store, each rename takes two
# requests.
_MOVED_AT_ONCE = 16


class Written(NamedTuple):
    """An attempt's result, and the folder of the files that it wrote, relative to the output."""

    folder: str
    result: TaskResult


@dataclass(frozen=True, eq=False, kw_only=True)
class SparkRows(Source):
    # Names of the columns. In Spark, columns are named by their positions, because Spark takes a
    # dot in a name for access to a field of a struct.
    names: tuple[str, ...]
    non_finite: str
    place: str = ""
    batches: Iterable[pa.RecordBatch] = ()  # can be read only once

    def cut(self, parts: int) -> list[tuple[Piece, ...]]:
        """Returns no pieces, because Spark has already cut the rows."""
        return [()] * parts

    def read(self, pieces: Sequence[Piece]) -> Iterator[Batch]:
        before = 0
        for numbered in self.batches:
            rows = pa.RecordBatch.from_arrays(numbered.columns, self.names)
            yield as_features(rows, self.columns, self.non_finite, self.place, before)
            before += rows.num_rows


def write_tfrecords(
    df: "DataFrame",
    path: str,
    *,
    splits: SplitOptions | None = None,
    shards: int | None = None,
    compression: str = "",
    non_finite: str = "reject",
    on_bad_row: OnBadRow = "strict",
    max_quarantined_share: float = MAX_QUARANTINED_SHARE,
    overwrite: bool = False,
) -> Manifest:
    """Writes a DataFrame as sharded TFRecords with a manifest.

    Args:
        df: DataFrame; its columns become features as in `docs/data_types.md`, like those of
            Parquet.
        path: Folder to create, which driver and executors can reach, or an address (`s3a://`,
            `s3://`, `gs://`).
        splits: Rule that divides rows into splits; None makes train and eval, with two train rows
            to one eval row.
        shards: Maximum number of shards per split; None keeps the DataFrame's partitions.
        compression: `""` or `"GZIP"`.
        non_finite: Treatment of NaN and infinity in columns of floats: `reject`, `null` or `keep`.
        on_bad_row: `strict` stops at a row with a value that fits no feature; `quarantine` stores
            the row and the reason in a separate file and continues.
        max_quarantined_share: Maximum share of quarantined rows among all rows; a larger share
            stops the job.
        overwrite: Whether to replace an output at `path` once the new one is complete.

    Returns:
        The manifest, which is also written to `path`.

    Raises:
        DataError: A value fits no feature; the message names partition, row and column. Nothing is
            written to `path`.
        UsageError: A column's type, an option or `path` cannot be used.
    """
    options = IngestOptions(
        compression=compression,
        on_bad_row=on_bad_row,
        max_quarantined_share=max_quarantined_share,
    )
    splits = splits or SplitOptions()
    rows = _rows_of(df, non_finite)
    check_partition(splits, rows.columns)
    if shards is not None:
        df = df.repartition(shards)
    df = df.toDF(*map(str, range(len(rows.names))))
    with open_output(path, overwrite=overwrite) as output:
        written = _written(df, partition_writer(rows, splits, options, output))
        results = _named(written, options, output)
        names = [split.name for split in splits.splits]
        plan = f"{len(results)}: one for each partition of the DataFrame"
        manifest = manifest_of([rows], names, plan, options, results)
        # The rows of a DataFrame can be hashed only after they are written, so the fingerprint is
        # the digest of the shards.
        manifest = replace(manifest, source_fingerprint=digest_of(manifest.shards))
        output.commit(manifest)
    return manifest


def _rows_of(df: "DataFrame", non_finite: str) -> SparkRows:
    from pyspark.sql.pandas.types import to_arrow_schema

    if non_finite not in NON_FINITE:
        raise UsageError(f"`non_finite` must be one of {', '.join(NON_FINITE)}, got {non_finite!r}")
    twice = [name for name, times in Counter(df.columns).items() if times > 1]
    if twice:
        raise UsageError(f"the DataFrame has several columns {twice[0]!r}; rename all but one")
    columns = []
    for field, (name, type_name) in zip(to_arrow_schema(df.schema), df.dtypes, strict=True):
        kind, is_list = feature_type(field.type) or (None, False)
        if kind is None:
            advice = "select its fields as columns of their own, or leave it out"
            if type_name == "vector":  # Spark ML's type
                advice = f"make it an array by vector_to_array({name!r}) of pyspark.ml.functions"
            raise UsageError(
                f"column {name!r} has Spark's type {type_name}, which no feature can hold; {advice}"
            )
        columns.append(Column(name, kind, is_list))
    return SparkRows(
        kind="spark",
        columns=tuple(columns),
        fingerprint="",
        rows=0,
        files=(),
        input_bytes=0,
        names=tuple(df.columns),
        non_finite=non_finite,
    )


def _written(df: "DataFrame", work: Callable[..., Any]) -> list[Written]:
    """Returns the result of each partition's successful attempt, in the order of the partitions."""
    found = df.mapInArrow(work, "result binary").collect()
    results = [pickle.loads(row.result) for row in found]
    results.sort(key=itemgetter(0))  # by partition number
    for _, result in results:
        if isinstance(result, DataError):
            raise result
    written = [result for _, result in results]
    if not sum(one.result.read for one in written):
        raise DataError("the DataFrame has no rows; expected at least one")
    return written


def _named(written: Sequence[Written], options: IngestOptions, output: Output) -> list[TaskResult]:
    moves, results = [], []
    for number, one in enumerate(written):
        shards = {}
        for split, shard in one.result.shards.items():
            name = shard_name(number, len(written), compression=options.compression)
            shards[split] = replace(shard, file=f"{split_dir(split)}/{name}")
            moves.append((f"{one.folder}/{shard.file}", shards[split].file))
        if one.result.quarantined:
            kept = f"{QUARANTINE_DIR}/rejected-{{:05d}}.jsonl".format
            moves.append((f"{one.folder}/{kept(0)}", kept(number)))
        results.append(replace(one.result, shards=shards))
    with ThreadPoolExecutor(_MOVED_AT_ONCE) as pool:
        list(pool.map(lambda move: output.move(*move), moves))
    return results


def partition_writer(
    rows: SparkRows, splits: SplitOptions, options: IngestOptions, output: Output
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Returns a function for `mapInArrow`: it writes a partition and yields one row, its result.

    The row is the pickled pair of the partition's number and its result, which is `Written` or the
    DataError that stopped the attempt.
    """

    def write(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None, "Spark's executors call this within a task"
        partition = context.partitionId()
        source = replace(rows, place=f"partition {partition}", batches=batches)
        name = f"{WORK_DIR}/{partition:05d}-{context.taskAttemptId()}"
        result: Written | DataError
        try:
            with output.new_try() as folder:
                (folder / name).mkdir(parents=True)
                task = ShardTask(0, source, splits, 0, 1, ())
                result = Written(name, write_files(task, options, folder / name))
                output.take(folder)
        except TriesFailedError:
            raise
        except FileNotFoundError as error:
            result = DataError(
                f"{error.filename}: not seen by the executor on {socket.gethostname()}; name a "
                "path that the driver and all executors share, or an s3a:// or gs:// address"
            )
        except PenstockError as error:
            # An error is returned as a result, not raised, because if it were raised, Spark would
            # by default make the same failing attempt four times.
            result = DataError(str(error))
        yield pa.RecordBatch.from_pydict({"result": [pickle.dumps((partition, result))]})

    return write
