"""Runs tasks in several processes of this machine, without Beam.

A process imports only what its work needs: 0.5 s of CPU for a scan, while a worker of Beam takes 3
s. The driver sends each process one task at a time, and receives results, errors and row counts.
"""

import gc
import os
import pickle
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from itertools import islice
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from typing import Any, TypeVar

from penstock.components import activity
from penstock.components.errors import DataError, PenstockError

Task = TypeVar("Task")
Result = TypeVar("Result")

# A command of our own, since multiprocessing's would import the user's script again. It uses this
# process's module paths, whatever is in the current folder.
_WORKER = (
    "import sys; sys.path[:] = sys.argv[2:]; "
    "from penstock.components.engine import processes; processes._serve(sys.argv[1])"
)
_SECONDS_BETWEEN_COUNTS = 0.2


class _Rows(int):
    """Number of rows that a task has processed since its process last sent a count."""


def run_in_processes(
    work: Callable[[Task], Result], tasks: Iterable[Task], count: int
) -> Iterator[Result]:
    """Yields the result of each task, in order, once it and all results before it have arrived.

    Work, tasks and results must be picklable; tasks are drawn as processes become free. If tasks
    fail, the error of the first is raised, and later tasks do not begin. If a process is lost, the
    others are killed and a DataError is raised; a bug raises a RuntimeError with its traceback.
    """
    todo = enumerate(tasks)
    running: dict[Connection, tuple[_Process, int]] = {}
    done: dict[int, Result] = {}
    failed: dict[int, Exception] = {}
    wanted = 0
    with ExitStack() as stack:
        for number, task in islice(todo, count):
            process = stack.enter_context(_started(work))
            running[process.connection] = process, number
            process.send(task)
        while running:
            for connection in wait([*running]):
                process, number = running[connection]  # type: ignore[index]
                answer = process.receive()
                if isinstance(answer, _Rows):
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


class _Process:
    def __init__(self, popen: "subprocess.Popen[bytes]", connection: Connection) -> None:
        self._popen = popen
        self.connection = connection

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
            raise DataError(_lost(self._popen.pid, self._popen.wait())) from error


def _lost(pid: int, code: int) -> str:
    if code == -signal.SIGKILL:
        hint = "the system kills one where memory runs out: use fewer workers, or add memory"
    else:
        hint = "it may have written why above; with one worker there is no such process"
    how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with {code}"
    return f"worker process {pid} {how}; {hint}"


@contextmanager
def _started(work: Callable[[Any], Any]) -> Iterator[_Process]:
    """Yields a process for `work`, which is killed if the block fails."""
    ours, theirs = Pipe()
    handle = theirs.fileno()
    command = [sys.executable, "-W", "ignore::FutureWarning", "-c", _WORKER, str(handle), *sys.path]
    # Without GPUs: TensorFlow in a worker would take their memory without using it.
    env = {**os.environ, "CUDA_VISIBLE_DEVICES": "-1"}
    # In a session of its own, so that Ctrl-C reaches only this process.
    with subprocess.Popen(command, pass_fds=[handle], start_new_session=True, env=env) as popen:
        try:
            theirs.close()
            with ours:
                process = _Process(popen, ours)
                process.send(work)
                yield process
        except BaseException:
            popen.kill()
            raise


def _serve(handle: str) -> None:
    # During imports of libraries, garbage collection would take a fifth of the time.
    gc.set_threshold(100_000, 20, 20)
    with Connection(int(handle)) as driver, suppress(EOFError, ConnectionError):
        work = driver.recv()
        with activity.counting_by(_RowSender(driver)) as sender:
            while True:
                answer = _answer(work, driver.recv())
                sender.flush()
                driver.send_bytes(answer)


class _RowSender:
    """Sends row counts to the driver, a few per second."""

    def __init__(self, driver: Connection) -> None:
        self._driver = driver
        self._rows = 0
        self._next_send = 0.0

    def __call__(self, rows: int) -> None:
        self._rows += rows
        if time.monotonic() >= self._next_send:
            self.flush()

    def flush(self) -> None:
        if self._rows:
            self._driver.send(_Rows(self._rows))
        self._rows = 0
        self._next_send = time.monotonic() + _SECONDS_BETWEEN_COUNTS


def _answer(work: Callable[[Any], Any], task: Any) -> bytes:
    """Returns the pickled result or error; for a bug, an error with the traceback."""
    try:
        try:
            return pickle.dumps(work(task))
        except (PenstockError, OSError) as error:
            pickled = pickle.dumps(error)
            with suppress(Exception):  # an error's class may not accept its text as only argument
                pickle.loads(pickled)
                return pickled
            return pickle.dumps(DataError(str(error)))
    except Exception:
        return pickle.dumps(RuntimeError(traceback.format_exc()))
