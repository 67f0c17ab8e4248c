"""The work of an ingest as a Beam transform, by way of three files in the output.

    .work/plan       the tasks one after the other; each has what it reads, and nothing of others
    .work/stopped    there when the data stopped a task: the others need not begin
    .work/results    what all tasks did

The elements are where a task stands in the plan, and what it did: never rows, and never a list of
files, so what an engine carries does not grow with the data. Workers share the output with the
process that plans, and no other folder.
"""

import json
import pickle
import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

import apache_beam as beam
from apache_beam.runners.direct import DirectRunner
from apache_beam.runners.portability.fn_api_runner import FnApiRunner

from penstock.components.errors import DataError, TriesFailedError, one_line
from penstock.components.example_gen.options import IngestOptions
from penstock.components.example_gen.shard_task import ShardTask, TaskResult, run_task
from penstock.components.example_gen.split_options import SplitOptions
from penstock.components.files.output import WORK_DIR, Output
from penstock.components.sources.base import Source
from penstock.components.tfrecord.manifest import Shard
from penstock.components.tfrecord.sharding import ShardPlan

_PLAN = f"{WORK_DIR}/plan"
_STOPPED = f"{WORK_DIR}/stopped"
_RESULTS = f"{WORK_DIR}/results"
# These try nothing again, and what a task raises they print with its traceback.
_LOCAL_RUNNERS = (FnApiRunner, DirectRunner)

# Where a task begins and ends in the plan, in bytes.
Span = tuple[int, int]


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


class WriteShards(beam.PTransform):
    """Runs the tasks of some jobs, each writing its own shards.

    Args:
        jobs: The work; its plan is written when this is made.
        options: Compression, and what to do with bad rows.
        output: Where it goes.
        progress: A folder of this machine where tasks on it say how far they are.
    """

    def __init__(
        self, jobs: Sequence[Job], options: IngestOptions, output: Output, progress: Path
    ) -> None:
        super().__init__()
        self._spans = _write_plan(shard_tasks(jobs), output)
        self._work = (output, options, progress)
        self._output = output

    def expand(self, pbegin: beam.pvalue.PBegin) -> beam.PCollection:
        """One element when all tasks are done; see `read_results`."""
        is_local = isinstance(pbegin.pipeline.runner, _LOCAL_RUNNERS)
        return (
            pbegin
            | "Tasks" >> beam.Create(self._spans)
            | "Spread" >> beam.Reshuffle()
            | "Write" >> beam.ParDo(_RunTask(*self._work, engine_retries=not is_local))
            | "As one" >> beam.GroupBy(lambda _: 0)
            | "Report" >> beam.Map(_report_all, output=self._output)
        )


class _RunTask(beam.DoFn):
    def __init__(
        self, output: Output, options: IngestOptions, progress: Path, *, engine_retries: bool
    ) -> None:
        self._output = output
        self._options = options
        self._progress = progress
        self._engine_retries = engine_retries

    def setup(self) -> None:
        self._name = uuid.uuid4().hex
        self._rows = 0

    def process(self, span: Span) -> list[TaskResult]:
        if self._output.has(_STOPPED):
            return []
        task: ShardTask = pickle.loads(self._output.read(_PLAN, *span))
        try:
            with self._output.new_try() as folder:
                result = run_task(task, self._options, folder, on_rows=self._tell)
                self._output.take(folder)
        except (OSError, TriesFailedError) as error:
            if self._engine_retries:
                raise
            return [self._stop(task, one_line(error))]
        except DataError as error:
            # A value: an engine that tries again would meet the same data.
            return [self._stop(task, str(error))]
        self._rows += result.read
        return [result]

    def _stop(self, task: ShardTask, error: str) -> TaskResult:
        _put(self._output, _STOPPED, b"")
        return TaskResult(task.number, {}, error=error)

    def _tell(self, rows: int) -> None:
        with suppress(OSError):  # on another machine than who looks
            (self._progress / self._name).write_text(str(self._rows + rows))


def rows_done(progress: Path) -> int:
    """Rows that all tasks on this machine have read until now."""
    # A file that is being written may be empty.
    return sum(int(file.read_text() or 0) for file in progress.iterdir())


def _write_plan(tasks: Iterable[ShardTask], output: Output) -> list[Span]:
    """Write each task as it comes: the plan of ten million images is gigabytes."""
    spans = []
    with output.new_try() as folder:
        (folder / WORK_DIR).mkdir()
        with (folder / _PLAN).open("wb") as out:
            for task in tasks:
                start = out.tell()
                pickle.dump(task, out, pickle.HIGHEST_PROTOCOL)
                spans.append((start, out.tell()))
        output.take(folder)
    return spans


def _report_all(found: tuple[int, Iterable[TaskResult]], output: Output) -> None:
    # Of a task that an engine ran twice either result will do.
    by_number = {result.number: result for result in found[1]}
    results = [asdict(by_number[number]) for number in sorted(by_number)]
    # In ASCII: file names need not be UTF-8, and errors name files.
    _put(output, _RESULTS, json.dumps(results).encode())


def _put(output: Output, name: str, data: bytes) -> None:
    with output.new_try() as folder:
        (folder / WORK_DIR).mkdir()
        (folder / name).write_bytes(data)
        output.take(folder)


def read_results(output: Output, tasks: int) -> list[TaskResult]:
    """The results of all tasks, in order.

    Raises:
        DataError: The data stopped one; says what the first of them was stopped by.
    """
    results = [
        TaskResult(**{**one, "shards": {k: Shard(**v) for k, v in one["shards"].items()}})
        for one in json.loads(output.read(_RESULTS))
    ]
    for result in results:
        if result.error is not None:
            raise DataError(result.error)
    assert [result.number for result in results] == list(range(tasks)), "a task is missing"
    return results
