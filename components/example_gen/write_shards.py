"""The work of an ingest as tasks, each of which writes its own shards."""

import uuid
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from penstock.components.example_gen.options import IngestOptions
from penstock.components.example_gen.shard_task import (
    ShardTask,
    TaskResult,
    WriteBatch,
    run_task,
    write_examples,
)
from penstock.components.example_gen.split_options import SplitOptions
from penstock.components.files.output import Output
from penstock.components.sources.base import Source
from penstock.components.tfrecord.sharding import ShardPlan


@dataclass(frozen=True)
class Job:
    """A source, the splits that its rows go to, and the number of shards of each."""

    source: Source
    splits: SplitOptions
    plan: ShardPlan


def shard_tasks(jobs: Sequence[Job]) -> Iterator[ShardTask]:
    """All tasks of the jobs, numbered."""
    number = 0
    for job in jobs:
        for index, pieces in enumerate(job.source.cut(job.plan.shards)):
            part, own = job.source.part(pieces)
            yield ShardTask(number, part, job.splits, index, job.plan.shards, own)
            number += 1


class RowsTold:
    """Says how many rows a worker has done, in a file of its own.

    Args:
        progress: A folder of the machine that plans, where tasks on it say how far they are.
    """

    def __init__(self, progress: Path) -> None:
        self._progress = progress
        self._name = ""

    def tell(self, rows: int) -> None:
        """Say how many it has done until now."""
        self._name = self._name or uuid.uuid4().hex  # of this worker, not of whom it was sent by
        with suppress(OSError):  # on another machine than who looks
            (self._progress / self._name).write_text(str(rows))


@dataclass
class WriteTask:
    """Does tasks, in a worker.

    Attributes:
        output: Where their files go.
        options: Compression, and what to do with bad rows.
        told: Of the rows that are read.
        write: Appends a batch of rows to shards.
    """

    output: Output
    options: IngestOptions
    told: RowsTold
    write: WriteBatch = write_examples
    _rows: int = 0

    def __call__(self, task: ShardTask) -> TaskResult:
        """Write the task's shards."""
        with self.output.new_try() as folder:
            result = run_task(task, self.options, folder, on_rows=self._tell, write=self.write)
            self.output.take(folder)
        self._rows += result.read
        return result

    def _tell(self, rows: int) -> None:
        self.told.tell(self._rows + rows)


def rows_done(progress: Path) -> int:
    """Rows that all tasks on this machine have read until now."""
    # A file that is being written may be empty.
    return sum(int(file.read_text() or 0) for file in progress.iterdir())
