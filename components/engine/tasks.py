"""Runs independent tasks, for example the reading or writing of one shard each.

    results = run_tasks(tasks, work, place, engine)    # in the order of the tasks

A task is a picklable description, and `work` is a picklable callable that does one task. If this
process does the work, it neither imports Beam nor starts other processes.
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
# Number of processes on this machine, or a function that returns a Beam pipeline on an engine.
Engine: TypeAlias = "int | MakePipeline"


def task_engine(options: EngineOptions) -> Engine:
    if options.runner == "local":
        return options.workers
    from penstock.components.engine.pipeline import engine_pipeline

    return partial(engine_pipeline, options)


def run_tasks(
    tasks: Iterable[Task], work: Callable[[Task], Result], place: Output, engine: Engine = 1
) -> Iterator[Result]:
    """Yields the result of each task, in order; the work is done while the caller iterates.

    Tasks are taken from the iterable one by one, so that plans of millions of files fit into
    memory; `work` may report rows with `activity.advance`. An engine on other machines stores its
    plan and results in `place`, which its workers must see. If tasks fail, the error of the first
    failed task in order is raised, and no further task begins.
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
    """Turns system errors into DataErrors of one line, since tasks are not retried without Beam."""

    work: Callable[[Task], Result]

    def __call__(self, task: Task) -> Result:
        try:
            return self.work(task)
        except (OSError, TriesFailedError, MemoryError) as error:
            raise DataError(one_line(error)) from error
