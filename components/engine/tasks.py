"""Runs tasks that know nothing of each other: the one way in which shards are read and written.

    results = run_tasks(tasks, work, place, engine)    # in the order of the tasks

A task is a picklable description, `work` a picklable callable that does one. Neither Beam nor other
processes are imported or started where one process of this machine does the work.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Generic, TypeAlias, TypeVar

from penstock.components.engine.options import EngineOptions
from penstock.components.engine.processes import run_in_processes
from penstock.components.errors import DataError, TriesFailedError, one_line
from penstock.components.files.output import Output

if TYPE_CHECKING:
    import apache_beam as beam

Task = TypeVar("Task")
Result = TypeVar("Result")

MakePipeline: TypeAlias = "Callable[[], AbstractContextManager[beam.Pipeline]]"
# The number of processes on this machine, or a function that returns a Beam pipeline on an engine.
Engine: TypeAlias = "int | MakePipeline"


def task_engine(options: EngineOptions) -> Engine:
    if options.runner == "local":
        return options.workers
    from penstock.components.engine.pipeline import engine_pipeline

    return partial(engine_pipeline, options)


def run_tasks(
    tasks: Iterable[Task], work: Callable[[Task], Result], place: Output, engine: Engine = 1
) -> Iterator[Result]:
    """Yields the result of each task, in their order; the work is done while they are drawn.

    Tasks are drawn one by one, so that a plan of millions of files fits in memory; `work` may count
    rows by `activity.advance`. The plan and the results of an engine elsewhere go to `place`, which
    its workers see. Of failed tasks the first's error is raised; tasks behind it do not begin.
    """
    if not isinstance(engine, int):
        from penstock.components.engine.beam_tasks import run_on_beam

        yield from run_on_beam(tasks, work, place, engine)
    elif engine == 1:
        yield from map(WithOneLineErrors(work), tasks)
    else:
        yield from run_in_processes(WithOneLineErrors(work), tasks, engine)


@dataclass(frozen=True)
class WithOneLineErrors(Generic[Task, Result]):
    """Work whose errors of the system are DataErrors: on this machine no other try would help."""

    work: Callable[[Task], Result]

    def __call__(self, task: Task) -> Result:
        try:
            return self.work(task)
        except (OSError, TriesFailedError, MemoryError) as error:
            raise DataError(one_line(error)) from error
