"""Where the tasks of a scan run: in this process, several local processes, or an engine."""

import os
from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from penstock.components.engine.processes import run_in_processes
from penstock.components.engine.tasks import Engine, run_tasks
from penstock.components.files.output import open_workspace
from penstock.components.tfrecord.sharding import MIB

Task = TypeVar("Task")
Result = TypeVar("Result")

# Below it, several processes save little: one takes 0.5 s to start, time to scan 150 MiB.
_WORTH_PROCESSES_BYTES = 256 * MIB
# An engine takes 5 s or more to start; meanwhile, one process scans 1 GiB.
_WORTH_ENGINE_BYTES = 2048 * MIB


class Spread(Protocol):
    def __call__(
        self, work: Callable[[Task], Result], tasks: Sequence[Task], input_bytes: int
    ) -> list[Result]:
        """Returns the result of `work` for each task, in order; all must be picklable."""
        ...


def here(work: Callable[[Task], Result], tasks: Sequence[Task], input_bytes: int) -> list[Result]:
    del input_bytes
    return [work(task) for task in tasks]


def spread_by(engine: Engine, output: str | os.PathLike[str]) -> Spread:
    """Returns a spread that uses the engine if there is enough to read; workers share `output`."""

    def spread(
        work: Callable[[Task], Result], tasks: Sequence[Task], input_bytes: int
    ) -> list[Result]:
        worth = _WORTH_PROCESSES_BYTES if isinstance(engine, int) else _WORTH_ENGINE_BYTES
        if engine == 1 or len(tasks) < 2 or input_bytes < worth:
            return here(work, tasks, input_bytes)
        if isinstance(engine, int):
            return list(run_in_processes(work, tasks, engine))
        with open_workspace(output) as place:
            return list(run_tasks(tasks, work, place, engine))

    return spread
