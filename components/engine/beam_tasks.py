"""Runs tasks as elements of a Beam pipeline, with three files in a folder that all workers see.

    .work/3f8a01c2/plan      all tasks one after the other, each with its part of the input
    .work/3f8a01c2/stopped   created when a task fails without a retry: later elements do nothing
    .work/3f8a01c2/results   the results of all tasks

An element is first a byte range of the plan; the work replaces it by the results of the tasks in
this range. The tasks themselves, which may name millions of files, do not pass through Beam.
"""

import pickle
import re
import socket
import uuid
import zlib
from array import array
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from io import BytesIO
from typing import Any, NamedTuple

import apache_beam as beam
from apache_beam.runners.direct import DirectRunner
from apache_beam.runners.portability.fn_api_runner import FnApiRunner

from penstock.components.engine.tasks import MakePipeline, Result, Task
from penstock.components.errors import DataError, PenstockError, TriesFailedError, one_line
from penstock.components.files.output import WORK_DIR, Output

# Runners that do not retry tasks, and that print the traceback of an error if a task raises one.
LOCAL_RUNNERS = (FnApiRunner, DirectRunner)
_UNSEEN = "the output is not seen by the worker on"
_UNSEEN_END = "or an s3:// or gs:// address"
# If there are more tasks than this, each element has several of them, because Beam's local runner
# takes 6 kB per element, and a cluster has fewer slots anyway.
_MAX_ELEMENTS = 4_000


class _Files(NamedTuple):
    plan: str
    stopped: str
    results: str

    @classmethod
    def new(cls) -> "_Files":
        folder = f"{WORK_DIR}/{uuid.uuid4().hex[:8]}"
        return cls(*(f"{folder}/{name}" for name in cls._fields))


class _Planned(NamedTuple):
    """Consecutive tasks: number of the first, and the range of bytes of all of them in the plan."""

    number: int
    start: int
    end: int


class _Done(NamedTuple):
    """Compressed results of some tasks; or, as one line, the error that stopped one of them."""

    number: int
    results: bytes
    error: str | None = None


def run_on_beam(
    tasks: Iterable[Task],
    work: Callable[[Task], Result],
    place: Output,
    make_pipeline: MakePipeline,
) -> Iterator[Result]:
    """Runs the tasks in a Beam pipeline; yields their results in order, as `run_tasks` says."""
    files = _Files.new()
    planned = _write_plan(tasks, place, files)
    if not planned:
        return
    try:
        with make_pipeline() as pipeline:
            engine_retries = not isinstance(pipeline.runner, LOCAL_RUNNERS)
            _ = (
                pipeline
                | "Tasks" >> beam.Create(planned)
                | "Spread" >> beam.Reshuffle()
                | "Work" >> beam.ParDo(_RunTasks(work, place, files, engine_retries=engine_retries))
                | "As one" >> beam.GroupBy(lambda _: 0)
                | "Report" >> beam.Map(_report_all, place=place, files=files)
            )
    except (RuntimeError, PenstockError) as error:
        if str(error).startswith("KeyboardInterrupt"):
            raise KeyboardInterrupt from error  # Beam's worker had wrapped it in an error
        # An engine includes a worker's error in the text of its own error, which may be cut.
        causes = f"{error}\n{error.__cause__}"
        if unseen := re.search(f"{_UNSEEN} [^ ]+ .*?{_UNSEEN_END}", causes):
            raise DataError(unseen[0]) from error
        raise
    done: list[_Done] = pickle.loads(place.read(files.results))
    for one in done:
        if one.error is not None:
            raise DataError(one.error)
    if [one.number for one in done] != [one.number for one in planned]:
        # A task failed, and its result was lost with its worker before the engine stored it. The
        # error is also in the file `stopped`.
        raise DataError(place.read(files.stopped).decode())
    done.reverse()
    while done:  # so that only one element's results are decompressed at a time
        yield from pickle.loads(zlib.decompress(done.pop().results))


class _RunTasks(beam.DoFn):
    def __init__(
        self, work: Callable[[Any], Any], place: Output, files: _Files, *, engine_retries: bool
    ) -> None:
        self._work = work
        self._place = place
        self._files = files
        self._engine_retries = engine_retries

    def process(self, planned: _Planned) -> list[_Done]:
        number, start, end = planned
        with _naming_unseen():
            plan, results = BytesIO(self._place.read(self._files.plan, start, end)), []
        try:
            if self._place.has(self._files.stopped):
                return []
            while plan.tell() < end - start:
                results.append(self._work(pickle.load(plan)))
            # The driver holds all results, and Beam several copies of them, so they are compressed:
            # names in results shrink to a third.
            packed = zlib.compress(pickle.dumps(results, pickle.HIGHEST_PROTOCOL), 1)
            return [_Done(number, packed)]
        except (OSError, TriesFailedError, MemoryError) as error:
            if self._engine_retries:
                raise
            reason = one_line(error)
        except PenstockError as error:
            # The error is returned, not raised, since an engine would retry the task on the same
            # data.
            reason = str(error)
        with suppress(DataError):  # another task has stopped too, and its reason is enough
            self._place.put(self._files.stopped, reason.encode())
        return [_Done(planned.number, b"", reason)]


@contextmanager
def _naming_unseen() -> Iterator[None]:
    try:
        yield
    except FileNotFoundError as error:
        raise RuntimeError(
            f"{_UNSEEN} {socket.gethostname()}: expected a folder that the driver and all workers "
            f"see under the same name, {_UNSEEN_END}"
        ) from error


def _write_plan(tasks: Iterable[Any], place: Output, files: _Files) -> list[_Planned]:
    """Writes the tasks to the plan one by one, without a list of them in memory.

    The tasks of ten million images would need gigabytes of memory.
    """
    places = array("q", [0])
    with place.new_try() as folder:
        (folder / files.plan).parent.mkdir(parents=True)
        with (folder / files.plan).open("wb") as out:
            for task in tasks:
                pickle.dump(task, out, pickle.HIGHEST_PROTOCOL)
                places.append(out.tell())
        place.take(folder)
    count = len(places) - 1
    step = max(1, -(-count // _MAX_ELEMENTS))
    return [_Planned(at, places[at], places[min(at + step, count)]) for at in range(0, count, step)]


def _report_all(found: tuple[int, Iterable[_Done]], place: Output, files: _Files) -> None:
    # An engine may run a task twice; both results are right.
    by_number = {one.number: one for one in found[1]}
    done = [by_number[number] for number in sorted(by_number)]
    with _naming_unseen():
        place.put(files.results, pickle.dumps(done, pickle.HIGHEST_PROTOCOL))
