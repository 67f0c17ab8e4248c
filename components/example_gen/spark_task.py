"""Work of a Spark executor: writes the rows of a partition as the files of one attempt.

A partition is read as Parquet is, and written by the task of every ingest. In what order a try gets
its rows is Spark's, so each writes below a name of its own.
"""

import pickle
import socket
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from operator import itemgetter
from typing import NamedTuple

import pyarrow as pa

from penstock.components.errors import DataError, PenstockError, TriesFailedError, UsageError
from penstock.components.example_gen.options import IngestOptions, Split, SplitOptions
from penstock.components.example_gen.shard_task import ShardTask, TaskResult, write_files
from penstock.components.files.output import WORK_DIR, Output
from penstock.components.sources.base import Batch, Piece, Source
from penstock.components.sources.columnar import as_features
from penstock.components.sources.spark.types import StepColumn
from penstock.components.tfrecord.encoder import encode_sequences


class Written(NamedTuple):
    """Files that a task wrote, and the prefix of their names relative to the output."""

    folder: str
    result: TaskResult


@dataclass(frozen=True, eq=False, kw_only=True)
class SparkRows(Source):
    names: tuple[str, ...]  # Spark has numbers, as it reads dots as paths
    steps: tuple[StepColumn, ...]  # feature lists
    by: str | None  # column whose values are the splits; None takes the splits of the task
    non_finite: str
    place: str = ""
    batches: Iterable[pa.RecordBatch] = ()  # can be read once

    def cut(self, parts: int) -> list[tuple[Piece, ...]]:
        """Returns no pieces: Spark has cut the rows."""
        return [()] * parts

    def read(self, pieces: Sequence[Piece]) -> Iterator[Batch]:
        columns, names = (*self.columns, *self.steps), {column.name for column in self.steps}
        before = 0
        for rows in self.batches:
            batch = as_features(rows, columns, self.non_finite, self.place, before)
            if names:
                batch = replace(batch, records=encode_sequences(batch.table, names))
            yield batch
            before += rows.num_rows


def partition_writer(
    rows: SparkRows, splits: SplitOptions, options: IngestOptions, output: Output
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Function for `mapInArrow`: writes a partition; returns one row, its number and result.

    That is pickled, a list of `Written`, or the DataError that stopped it.
    """

    def write(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None, "Spark's executors call this within a task"
        partition, attempt_id = context.partitionId(), context.taskAttemptId()
        result: list[Written] | DataError
        try:
            result = [
                _write(run, options, output, f"{WORK_DIR}/{partition:05d}-{attempt_id}-{at:05d}")
                for at, run in enumerate(_runs(batches, rows, splits, partition))
            ]
        except TriesFailedError:
            raise
        except FileNotFoundError as error:
            result = DataError(
                f"{error.filename}: not seen by the executor on {socket.gethostname()}; name a "
                "path that the driver and all executors share, or an s3a:// or gs:// address"
            )
        except PenstockError as error:
            # A result and no failure: Spark would try four times what cannot succeed.
            result = DataError(str(error))
        yield pa.RecordBatch.from_pydict({"result": [pickle.dumps((partition, result))]})

    return write


def _write(task: ShardTask, options: IngestOptions, output: Output, name: str) -> Written:
    with output.new_try() as folder:
        (folder / name).mkdir(parents=True)
        result = write_files(task, options, folder / name)
        output.take(folder)
    return Written(name, result)


def _runs(
    batches: Iterable[pa.RecordBatch], rows: SparkRows, splits: SplitOptions, partition: int
) -> Iterator[ShardTask]:
    """Yields the rows of a partition as one task, or as one for each value of a sorted column.

    Each is done before the next begins.
    """
    place = f"partition {partition}"
    named = (pa.RecordBatch.from_arrays(batch.columns, rows.names) for batch in batches)
    if rows.by is None:
        yield ShardTask(0, replace(rows, place=place, batches=named), splits, 0, 1, ())
        return
    cut = _cut(named, rows.by, place)
    for split, found in groupby(cut, key=itemgetter(0)):
        of_value = map(itemgetter(1), found)
        source = replace(rows, place=f"{place}, {rows.by}={split.name}", batches=of_value)
        yield ShardTask(0, source, SplitOptions((split,)), 0, 1, ())


def _cut(
    batches: Iterable[pa.RecordBatch], by: str, place: str
) -> Iterator[tuple[Split, pa.RecordBatch]]:
    """Yields batches of rows with one value of a column, and the split that it names."""
    before = 0
    for batch in batches:
        start = 0
        for value, same in groupby(batch.column(by).to_pylist()):
            at = f"{place}: row {before + start + 1}, column {by!r} of `partition_by`"
            if value is None:
                raise DataError(f"{at}: has no value; fill it or leave the row out")
            try:
                split = Split(value)
            except UsageError as error:
                raise DataError(f"{at}: {error}") from error
            rows = len(list(same))
            yield split, batch.slice(start, rows)
            start += rows
        before += start
