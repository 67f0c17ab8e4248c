"""Runs tasks in several processes of this machine, without Beam.

A process imports only what its work needs, which takes 0.5 s of CPU for a scan and 5 s for an
analysis; one of Beam's workers takes 3 s more. The driver sends each process one task at a time,
and receives results, errors and row counts. Within `kept_processes`, later work uses the same
processes.
"""

import gc
import os
import pickle
import signal
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from itertools import islice
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from threading import Timer
from typing import Any, NamedTuple, TypeVar

from penstock.components import activity
from penstock.components.errors import DataError, PenstockError

Task = TypeVar("Task")
Result = TypeVar("Result")

# Command of a worker process; multiprocessing's own command would import the user's script again.
# The command uses the module paths of this process, whatever the current folder contains.
_WORKER = (
    "import sys; sys.path[:] = sys.argv[2:]; "
    "from penstock.components.engine import processes; processes._serve(sys.argv[1])"
)
# Processes without work are ended after this time, because each holds up to 1 GB, which a training
# may need.
_SECONDS_KEPT = 20.0


class _RowCount(int):
    """Number of rows that a task has processed since its last report."""


class _Work(NamedTuple):
    """Work for the following tasks, and the driver's module paths, needed to unpickle it."""

    pickled: bytes
    paths: list[str]


def run_in_processes(
    work: Callable[[Task], Result], tasks: Iterable[Task], count: int
) -> Iterator[Result]:
    """Yields the result of each task, in order, once it and all results before it have arrived.

    Work, tasks and results must be picklable; the next task is taken from `tasks` when a process
    becomes free. If tasks fail, no further tasks begin, and the error of the first failed task, in
    the order of tasks, is raised. If a process is lost, the others are killed and a DataError is
    raised; a bug raises a RuntimeError with its traceback.
    """
    todo = enumerate(tasks)
    running: dict[Connection, tuple[_Process, int]] = {}
    done: dict[int, Result] = {}
    failed: dict[int, Exception] = {}
    wanted = 0
    with ExitStack() as stack:
        for number, task in islice(todo, count):
            process = stack.enter_context(_process_for(work))
            running[process.connection] = process, number
            process.send(task)
        while running:
            for connection in wait([*running]):
                process, number = running[connection]  # type: ignore[index]
                answer = process.receive()
                if isinstance(answer, _RowCount):
                    activity.advance(answer)
                    continue
                if isinstance(answer, Exception):
                    failed[number] = answer
                else:
                    done[number] = answer
                del running[process.connection]
                for number, task in islice(todo, 0 if failed else 1):
                    running[process.connection] = process, number
                    process.send(task)
            while wanted in done:
                yield done.pop(wanted)
                wanted += 1
    if failed:
        raise failed[min(failed)]


@contextmanager
def kept_processes() -> Iterator[None]:
    """Keeps processes for the next work in this block, which saves their start and imports."""
    global _idle
    if _idle is not None:
        yield
        return
    _idle = {}
    try:
        yield
    finally:
        kept, _idle = _idle, None
        while process := _taken(kept):
            process.end()


class _Process:
    def __init__(self) -> None:
        self.connection, theirs = Pipe()
        with theirs:
            handle = theirs.fileno()
            command = [sys.executable, "-W", "ignore::FutureWarning", "-c", _WORKER, str(handle)]
            # No GPUs are visible to the worker, because TensorFlow would take their memory without
            # using it. The worker has a session of its own, so that Ctrl-C reaches only this
            # process, the driver.
            self.popen = subprocess.Popen(
                [*command, *sys.path],
                pass_fds=[handle],
                start_new_session=True,
                env={**os.environ, "CUDA_VISIBLE_DEVICES": "-1"},
            )

    def end(self) -> None:
        self.connection.close()  # the process then ends
        self.popen.wait()

    def send(self, message: Any) -> None:
        with self._named_if_lost():
            self.connection.send(message)

    def receive(self) -> Any:
        with self._named_if_lost():
            return self.connection.recv()

    @contextmanager
    def _named_if_lost(self) -> Iterator[None]:
        try:
            yield
        except (EOFError, OSError) as error:
            raise DataError(_lost(self.popen.pid, self.popen.wait())) from error


_Idle = dict[_Process, Timer]
# Processes without work, each with the timer that ends it; None outside of `kept_processes`.
_idle: _Idle | None = None


def _lost(pid: int, code: int) -> str:
    if code == -signal.SIGKILL:
        hint = "the system kills one where memory runs out: use fewer workers, or add memory"
    else:
        hint = "it may have written why above; with one worker there is no such process"
    how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with {code}"
    return f"worker process {pid} {how}; {hint}"


@contextmanager
def _process_for(work: Callable[[Any], Any]) -> Iterator[_Process]:
    """Yields a process for `work`; the process is killed if the block fails."""
    process = _taken(_idle) or _Process()
    try:
        process.send(_Work(pickle.dumps(work), sys.path))
        yield process
    except BaseException:
        process.popen.kill()
        process.end()
        raise
    if _idle is None:
        process.end()
    else:
        _keep(process, _idle)


def _keep(process: _Process, idle: _Idle) -> None:
    def end() -> None:
        if idle.pop(process, None):
            process.end()

    idle[process] = timer = Timer(_SECONDS_KEPT, end)
    timer.daemon = True
    timer.start()


def _taken(idle: _Idle | None) -> _Process | None:
    while idle:
        with suppress(KeyError):  # a timer has just removed the last idle process
            process, timer = idle.popitem()
            timer.cancel()
            if process.popen.poll() is None:
                return process
            process.end()
    return None


def _serve(handle: str) -> None:
    # During imports of libraries, garbage collection would take a fifth of the time.
    gc.set_threshold(100_000, 20, 20)
    with (
        Connection(int(handle)) as driver,
        suppress(EOFError, ConnectionError),
        activity.counting_by(lambda rows: driver.send(_RowCount(rows))),
    ):
        while True:
            task = driver.recv()
            if isinstance(task, _Work):
                sys.path[:] = task.paths
                work = pickle.loads(task.pickled)
                continue
            driver.send_bytes(_answer(work, task))


def _answer(work: Callable[[Any], Any], task: Any) -> bytes:
    """Returns the pickled result or error; for a bug, an error with the traceback."""
    try:
        try:
            return pickle.dumps(work(task))
        except (PenstockError, OSError) as error:
            pickled = pickle.dumps(error)
            with suppress(Exception):  # `loads` fails if the error's class does not take its `args`
                pickle.loads(pickled)
                return pickled
            return pickle.dumps(DataError(str(error)))
    except Exception:
        return pickle.dumps(RuntimeError(traceback.format_exc()))
