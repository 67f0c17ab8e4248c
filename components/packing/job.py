"""The tasks of packing as a Beam transform, by way of some files in the output.

    tasks -> read -> rows by shard ------------> group -> write -> what was written
                  -> facts -> merge -> plan ---/                   .work/results

    vocabulary/company.txt ...  written when the layout is planned, read by those who write shards
    .work/stopped               there when the data stopped a task: the others need not begin

Rows travel as elements of the engine, some thousand in each. Beam's runners on this machine keep
elements in memory: where rows have more bytes than that may hold they go by files of this machine,
and the elements are their paths.
"""

import json
import shutil
import time
import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import apache_beam as beam

from penstock.components import errors
from penstock.components.errors import DataError, PenstockError, TriesFailedError, naming, one_line
from penstock.components.example_gen.stage import LOCAL_RUNNERS, put
from penstock.components.example_gen.write_shards import RowsTold
from penstock.components.files.output import WORK_DIR, Output
from penstock.components.packing.facts import Facts, merge_facts
from penstock.components.packing.layout import PackedLayout
from penstock.components.packing.sections import BlockMaker
from penstock.components.packing.tasks import (
    Job,
    Key,
    ReadTask,
    block_maker,
    plan_layout,
    read_shard,
    vocabulary_file,
    write_shard,
)
from penstock.components.plain import from_record
from penstock.components.tfrecord.manifest import Shard

_STOPPED = f"{WORK_DIR}/stopped"
_RESULTS = f"{WORK_DIR}/results"
_TOLD_EVERY_SECONDS = 0.2


@dataclass(frozen=True)
class Result:
    """What came of a part of the work.

    Attributes:
        split: A shard's split; empty of the plan.
        number: A shard's in its split.
        shard: The shard that was written.
        layout: What is in the shards, as `PackedLayout.to_dict` gives it; of the plan.
        empty: Columns of the rows that are left out because no row has a value; of the plan.
        cpu_seconds: CPU time that it took.
        pass_seconds: About what of that training takes, too.
        error: Class and text of what of the data stopped it.
    """

    split: str = ""
    number: int = 0
    shard: Shard | None = None
    layout: dict[str, Any] | None = None
    empty: Sequence[str] = ()
    cpu_seconds: float = 0.0
    pass_seconds: float = 0.0
    error: tuple[str, str] | None = None


class PackRows(beam.PTransform):
    """Runs the tasks of a job.

    Args:
        job: What all tasks know.
        tasks: The shards to read.
        output: Where the packed shards go.
        by_files: A folder for the rows, where the runner is one of this machine; it has some
            room that is given up before the results are written.
        progress: A folder of this machine where tasks on it say how far they are.
    """

    def __init__(
        self, job: Job, tasks: list[ReadTask], output: Output, by_files: Path, progress: Path
    ) -> None:
        super().__init__()
        self._tasks = tasks
        self._work = (job, output, progress, by_files)

    def expand(self, pbegin: beam.pvalue.PBegin) -> beam.PCollection:
        """One element when all is done; see `read_results`."""
        is_local = isinstance(pbegin.pipeline.runner, LOCAL_RUNNERS)
        read = (
            pbegin
            | "Tasks" >> beam.Create(self._tasks)
            | "Spread" >> beam.Reshuffle()
            | "Read" >> beam.ParDo(_Read(*self._work, is_local))
        )
        # No side inputs, no tagged outputs: not all engines have both.
        plans = (
            read
            | "Facts" >> beam.Filter(_is_told)
            | "All facts" >> beam.CombinePerKey(merge_facts)
            | "Plan" >> beam.ParDo(_Plan(*self._work, is_local))
        )
        written = (
            (
                read | "Rows" >> beam.Filter(_is_of_shard),
                plans | "Plans" >> beam.Filter(_is_of_shard),
            )
            | "With plans" >> beam.Flatten()
            | "By shard" >> beam.GroupByKey()
            | "Write" >> beam.ParDo(_Write(*self._work, is_local))
        )
        return (
            (plans | "Planned" >> beam.Filter(_is_told), written)
            | "All results" >> beam.Flatten()
            | "As one" >> beam.GroupByKey()
            | "Report" >> beam.Map(_report, output=self._work[1], by_files=self._work[3])
        )


def _is_told(element: tuple[Any, Any]) -> bool:
    """Whether it is about all of the work; else it is a shard's."""
    return element[0] is None


def _is_of_shard(element: tuple[Any, Any]) -> bool:
    return element[0] is not None


class _Task(beam.DoFn):
    def __init__(
        self, job: Job, output: Output, progress: Path, by_files: Path, is_local: bool
    ) -> None:
        self._job = job
        self._output = output
        self._told = RowsTold(progress)
        self._by_files = by_files
        self._is_local = is_local

    def setup(self) -> None:
        self._name = uuid.uuid4().hex
        self._rows = 0
        self._next_told = 0.0

    def _tell(self, rows: int) -> None:
        self._rows += rows
        if time.monotonic() < self._next_told:
            return
        self._next_told = time.monotonic() + _TOLD_EVERY_SECONDS
        self._told.tell(self._rows)

    def _stop(self, error: OSError | PenstockError) -> tuple[str, str]:
        """Class and text of an error that no other try would mend; raises the others."""
        if isinstance(error, OSError | TriesFailedError) and not self._is_local:
            raise error
        put(self._output, _STOPPED, b"")
        kind = type(error) if isinstance(error, PenstockError) else DataError
        return kind.__name__, one_line(error)


class _Read(_Task):
    def process(self, task: ReadTask) -> Iterator[tuple[Any, Any]]:
        if self._output.has(_STOPPED):
            return
        began = time.process_time()
        facts = Facts()
        try:
            for key, rows in read_shard(task, self._job, facts, self._tell):
                yield key, self._carried(key, rows)
        except (OSError, PenstockError) as error:
            facts.errors.append((task.number, *self._stop(error)))
        facts.cpu_seconds = time.process_time() - began
        yield None, facts

    def _carried(self, key: Key, rows: bytes) -> bytes | str:
        """The rows, or a file that they are in with others of the same shard."""
        if not self._is_local:
            return rows
        path = self._by_files / f"{key[0]}-{key[1]:05d}-{self._name}"
        with naming(path), path.open("ab") as file:
            file.write(rows)
        return str(path)


class _Plan(_Task):
    def process(self, found: tuple[Any, Facts]) -> Iterator[tuple[Any, Any]]:
        facts = found[1]
        try:
            for _, kind, text in sorted(facts.errors):
                raise getattr(errors, kind)(text)
            layout, vocabularies = plan_layout(facts, self._job)
            for path, values in vocabularies.items():
                put(self._output, path, vocabulary_file(path, values))
        except (OSError, PenstockError) as error:
            yield None, Result(error=self._stop(error))
            return
        kept = {column.name for column in layout.columns}
        empty = sorted(n for n, seen in facts.columns.items() if not seen.rows and n not in kept)
        cost = facts.cpu_seconds, facts.pass_seconds
        yield None, Result("", 0, None, layout.to_dict(), empty, *cost)
        for split, plan in self._job.plans.items():
            for index in range(plan.shards):
                yield (split, index), layout


class _Write(_Task):
    def setup(self) -> None:
        super().setup()
        self._maker: BlockMaker | None = None

    def process(self, found: tuple[Any, Iterable[Any]]) -> Iterator[tuple[Any, Any]]:
        if self._output.has(_STOPPED):
            return
        key, values = found
        began = time.process_time()
        shard = error = None
        try:
            with self._output.new_try() as folder:
                shard = write_shard(key, values, self._job, folder, self._make, self._tell)
                self._output.take(folder)
        except (OSError, PenstockError) as caught:
            error = self._stop(caught)
        spent = self._maker.take_images_cpu_seconds() if self._maker else 0.0
        split, number = key
        cpu = time.process_time() - began
        yield None, Result(split, number, shard, None, [], cpu, spent, error)

    def _make(self, layout: PackedLayout) -> BlockMaker:
        # Reads the vocabularies, which may be large, once a worker.
        self._maker = self._maker or block_maker(layout, self._job, self._output.read)
        return self._maker


def _report(found: tuple[Any, Iterable[Any]], output: Output, by_files: Path) -> None:
    # Room for this, should the disk be full: what is there nobody reads any more.
    shutil.rmtree(by_files, ignore_errors=True)
    # Of a task that an engine ran twice either result will do.
    by_part = {(result.split, result.number): result for result in found[1]}
    results = [asdict(by_part[part]) for part in sorted(by_part)]
    # In ASCII: file names need not be UTF-8, and errors name files.
    put(output, _RESULTS, json.dumps(results).encode())


def read_results(output: Output) -> list[Result]:
    """What came of all parts: the plan first, then the shards of each split in order.

    Raises:
        PenstockError: The data or an option stopped one; says what the first was stopped by.
    """
    results = []
    for one in json.loads(output.read(_RESULTS)):
        if one["error"] is not None:
            kind, text = one["error"]
            raise getattr(errors, kind)(text)
        results.append(from_record(Result, one))
    return results
