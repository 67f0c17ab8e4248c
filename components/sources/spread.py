"""Runner of the tasks of a scan, and its workspace for rows that can be read only once."""

import os
import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import TypeVar

from penstock.components.engine.processes import run_in_processes
from penstock.components.engine.tasks import Engine, run_tasks
from penstock.components.files.output import Output, open_workspace, store_address
from penstock.components.tfrecord.sharding import MIB

Task = TypeVar("Task")
Result = TypeVar("Result")

# Below this size, several processes save little: a process takes 0.5 s to start, and 150 MiB could
# be scanned in that time.
_WORTH_PROCESSES_BYTES = 256 * MIB
# A Beam engine takes 5 s or more to start; one process scans 1 GiB in that time.
_WORTH_ENGINE_BYTES = 2048 * MIB


class Spread(ExitStack):
    """Runs tasks in this process or, for large inputs, in several processes or on a Beam engine.

    It is a context manager; its workspace, which all workers can reach, is removed at the end.
    """

    def __init__(self, engine: Engine = 1, output: str | os.PathLike[str] | None = None) -> None:
        super().__init__()
        self._engine = engine
        self._output = output
        self._workspace: Output | None = None

    def __call__(
        self, work: Callable[[Task], Result], tasks: Sequence[Task], input_bytes: int
    ) -> list[Result]:
        """Returns the result of `work` for each task, in order.

        `work`, tasks and results must be picklable.
        """
        engine = self._engine
        worth = _WORTH_PROCESSES_BYTES if isinstance(engine, int) else _WORTH_ENGINE_BYTES
        if engine == 1 or len(tasks) < 2 or input_bytes < worth:
            return [work(task) for task in tasks]
        if isinstance(engine, int):
            return list(run_in_processes(work, tasks, engine))
        with open_workspace(self._place()) as place:
            return list(run_tasks(tasks, work, place, engine))

    def workspace(self) -> Output:
        """Returns a folder for files that are read while the spread is open."""
        if self._workspace is None:
            self._workspace = self.enter_context(open_workspace(self._place()))
        return self._workspace

    def _place(self) -> str | os.PathLike[str]:
        """Returns the output or a private folder; the workspace is made beside or below it.

        The folder is private if there is no output, or if the output is in an object store and all
        workers are processes on this machine.
        """
        if self._output is None or (isinstance(self._engine, int) and store_address(self._output)):
            folder = tempfile.TemporaryDirectory(prefix="penstock-rows-")
            return os.path.join(self.enter_context(folder), "rows")
        return self._output
