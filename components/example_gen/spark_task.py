"""Work of a Spark executor: writes the rows of a partition as the files of one attempt.

In what order an attempt gets its rows is Spark's, so each writes below a name of its own.
"""

import pickle
import socket
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import pyarrow as pa

from penstock.components.errors import DataError, PenstockError, TriesFailedError
from penstock.components.example_gen.options import IngestOptions, SplitOptions
from penstock.components.example_gen.shard_task import ShardTask, TaskResult, write_files
from penstock.components.files.output import WORK_DIR, Output
from penstock.components.sources.base import Batch, Piece, Source
from penstock.components.sources.columnar import as_features


class Written(NamedTuple):
    """Files that an attempt wrote, and the prefix of their names relative to the output."""

    folder: str
    result: TaskResult


@dataclass(frozen=True, eq=False, kw_only=True)
class SparkRows(Source):
    names: tuple[str, ...]  # Spark has numbers, as it reads dots as paths
    non_finite: str
    place: str = ""
    batches: Iterable[pa.RecordBatch] = ()  # can be read once

    def cut(self, parts: int) -> list[tuple[Piece, ...]]:
        """Returns no pieces: Spark has cut the rows."""
        return [()] * parts

    def read(self, pieces: Sequence[Piece]) -> Iterator[Batch]:
        before = 0
        for numbered in self.batches:
            rows = pa.RecordBatch.from_arrays(numbered.columns, self.names)
            yield as_features(rows, self.columns, self.non_finite, self.place, before)
            before += rows.num_rows


def partition_writer(
    rows: SparkRows, splits: SplitOptions, options: IngestOptions, output: Output
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Function for `mapInArrow`: writes a partition; returns one row, its number and result.

    That is pickled: `Written`, or the DataError that stopped it.
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
            # A result and no failure: Spark would try four times what cannot succeed.
            result = DataError(str(error))
        yield pa.RecordBatch.from_pydict({"result": [pickle.dumps((partition, result))]})

    return write
