"""Tasks on any engine, by way of three files in a place that workers share with who plans.

    .work/plan       the tasks one after the other; each has what it reads, and nothing of others
    .work/stopped    there when the data stopped a task: the others need not begin
    .work/results    what all tasks gave

The elements of the Beam pipeline are where some tasks stand in the plan, and what they gave: never
rows, and never a list of files, so what an engine carries does not grow with the data.
"""

import pickle
import zlib
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from io import BytesIO
from os import PathLike
from typing import Any, NamedTuple

import apache_beam as beam
from apache_beam.runners.direct import DirectRunner
from apache_beam.runners.portability.fn_api_runner import FnApiRunner

from penstock.components.engine.workers import WORKER_LOST
from penstock.components.errors import DataError, TriesFailedError, one_line
from penstock.components.files.output import WORK_DIR, Output, open_workspace
from penstock.components.sources.spread import Result, Spread, Task, here
from penstock.components.tfrecord.sharding import MIB

_PLAN = f"{WORK_DIR}/plan"
_STOPPED = f"{WORK_DIR}/stopped"
_RESULTS = f"{WORK_DIR}/results"
# These try nothing again, and what a task raises they print with its traceback.
LOCAL_RUNNERS = (FnApiRunner, DirectRunner)
# Of less an engine saves nothing: it takes 5 s and more to start, in which one process scans 1 GiB.
_WORTH_SPREADING_BYTES = 2048 * MIB
# Of more tasks several are an element: each is 6 kB in Beam's runner on this machine. A cluster has
# fewer slots.
_MAX_ELEMENTS = 4_000

MakePipeline = Callable[[], AbstractContextManager[beam.Pipeline]]


class _Planned(NamedTuple):
    """Some tasks: the number of the first, and where they begin and end in the plan, in bytes."""

    number: int
    start: int
    end: int


class _Done(NamedTuple):
    """What each of some tasks gave, packed; or what of the data stopped one, in one line."""

    number: int
    results: bytes
    error: str | None = None


def run_tasks(
    tasks: Iterable[Task],
    work: Callable[[Task], Result],
    place: Output,
    make_pipeline: MakePipeline,
) -> Iterator[Result]:
    """What `work` gives for each task, in order; all is done when this returns.

    Raises:
        DataError: The data stopped one; says what the first of them was stopped by.
    """
    planned = _write_plan(tasks, place)
    with pipeline_of(make_pipeline) as pipeline:
        engine_retries = not isinstance(pipeline.runner, LOCAL_RUNNERS)
        _ = (
            pipeline
            | "Tasks" >> beam.Create(planned)
            | "Spread" >> beam.Reshuffle()
            | "Work" >> beam.ParDo(_RunTask(work, place, engine_retries=engine_retries))
            | "As one" >> beam.GroupBy(lambda _: 0)
            | "Report" >> beam.Map(_report_all, place=place)
        )
    done: list[_Done] = pickle.loads(place.read(_RESULTS))
    for one in done:
        if one.error is not None:
            raise DataError(one.error)
    assert [one.number for one in done] == [one.number for one in planned], "a task is missing"
    return _unpacked(done)


def _packed(results: list[Any]) -> bytes:
    # Who plans holds those of all tasks, several times over in Beam; of shards' names 1/3 is left.
    return zlib.compress(pickle.dumps(results, pickle.HIGHEST_PROTOCOL), 1)


def _unpacked(done: list[_Done]) -> Iterator[Any]:
    """The results; those of an element are held no longer than they are looked at."""
    done.reverse()
    while done:
        yield from pickle.loads(zlib.decompress(done.pop().results))


@contextmanager
def pipeline_of(make_pipeline: MakePipeline) -> Iterator[beam.Pipeline]:
    """A pipeline, run when the block ends.

    Raises:
        DataError: A worker process was lost.
    """
    try:
        with make_pipeline() as pipeline:
            yield pipeline
    except RuntimeError as error:
        if str(error).startswith("KeyboardInterrupt"):
            raise KeyboardInterrupt from error  # as it was before Beam's worker wrapped it
        _, lost, how = str(error).partition(WORKER_LOST)
        if lost:
            raise DataError(f"{lost}{how}") from error
        raise


def spread_by(make_pipeline: MakePipeline, output: str | PathLike[str]) -> Spread:
    """Scans by an engine, where there is much to read; its workers reach where `output` will be."""

    def spread(
        work: Callable[[Task], Result], tasks: Sequence[Task], input_bytes: int
    ) -> list[Result]:
        if input_bytes < _WORTH_SPREADING_BYTES or len(tasks) < 2:
            return here(work, tasks, input_bytes)
        with open_workspace(output) as place:
            return list(run_tasks(tasks, work, place, make_pipeline))

    return spread


class _RunTask(beam.DoFn):
    def __init__(self, work: Callable[[Any], Any], place: Output, *, engine_retries: bool) -> None:
        self._work = work
        self._place = place
        self._engine_retries = engine_retries

    def process(self, planned: _Planned) -> list[_Done]:
        if self._place.has(_STOPPED):
            return []
        number, start, end = planned
        plan, results = BytesIO(self._place.read(_PLAN, start, end)), []
        try:
            while plan.tell() < end - start:
                results.append(self._work(pickle.load(plan)))
            return [_Done(number, _packed(results))]
        except (OSError, TriesFailedError) as error:
            if self._engine_retries:
                raise
            reason = one_line(error)
        except DataError as error:
            # A value: an engine that tries again would meet the same data.
            reason = str(error)
        put(self._place, _STOPPED, b"")
        return [_Done(number, b"", reason)]


def _write_plan(tasks: Iterable[Any], place: Output) -> list[_Planned]:
    """Write each task as it comes: the plan of ten million images is gigabytes."""
    places = array("q", [0])
    with place.new_try() as folder:
        (folder / WORK_DIR).mkdir()
        with (folder / _PLAN).open("wb") as out:
            for task in tasks:
                pickle.dump(task, out, pickle.HIGHEST_PROTOCOL)
                places.append(out.tell())
        place.take(folder)
    count = len(places) - 1
    step = -(-count // _MAX_ELEMENTS)
    return [_Planned(at, places[at], places[min(at + step, count)]) for at in range(0, count, step)]


def _report_all(found: tuple[int, Iterable[_Done]], place: Output) -> None:
    # Of a task that an engine ran twice either result will do.
    by_number = {one.number: one for one in found[1]}
    done = [by_number[number] for number in sorted(by_number)]
    put(place, _RESULTS, pickle.dumps(done, pickle.HIGHEST_PROTOCOL))


def put(place: Output, name: str, data: bytes) -> None:
    """Write a file of an output that stands in a folder there."""
    with place.new_try() as folder:
        (folder / name).parent.mkdir()
        (folder / name).write_bytes(data)
        place.take(folder)
