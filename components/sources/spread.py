"""Ways to run the tasks of a scan: in this process, in several processes, or on an engine."""

import pickle
import signal
import subprocess
import sys
import traceback
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import Any, Protocol, TypeVar

from penstock.components.errors import DataError, PenstockError
from penstock.components.tfrecord.sharding import MIB

Task = TypeVar("Task")
Result = TypeVar("Result")

# Several processes save little below it: one takes 0.5 s to start, in which 150 MiB are scanned.
_WORTH_PROCESSES_BYTES = 256 * MIB
# Our own command, because multiprocessing's imports the user's script once more. It gets this
# process's sys.path, so that files in the current folder do not shadow modules.
_WORKER = (
    "import sys; sys.path[:] = sys.argv[2:]; "
    "from penstock.components.sources import spread; spread._serve(sys.argv[1])"
)


class Spread(Protocol):
    """Runner of the tasks of a scan."""

    def __call__(
        self, work: Callable[[Task], Result], tasks: Sequence[Task], input_bytes: int
    ) -> list[Result]:
        """Returns the result of `work` for each task, in order.

        Args:
            work: Function of one task; picklable, as are tasks and results.
            tasks: The tasks.
            input_bytes: Number of bytes to read in all tasks.

        Raises:
            DataError: A task raised it, or a process was lost.
            RuntimeError: A bug in another process; the text is its traceback.
        """
        ...


def here(work: Callable[[Task], Result], tasks: Sequence[Task], input_bytes: int) -> list[Result]:
    """Runs the tasks in this process."""
    del input_bytes
    return [work(task) for task in tasks]


def processes(count: int) -> Spread:
    """Returns a runner in this and other processes, `count` in all, if there is much to read.

    They import what a scan needs and not Beam: 0.5 s of CPU each, against 3 s for a Beam worker.
    """

    def spread(
        work: Callable[[Task], Result], tasks: Sequence[Task], input_bytes: int
    ) -> list[Result]:
        if count < 2 or len(tasks) < 2 or input_bytes < _WORTH_PROCESSES_BYTES:
            return here(work, tasks, input_bytes)
        todo = iter(enumerate(tasks))  # Shared by all threads.
        done, failed = dict[int, Result](), dict[int, Exception]()

        def drain(do: Callable[[Task], Result]) -> None:
            for at, task in todo:
                try:
                    done[at] = do(task)
                except Exception as error:
                    failed[at] = error
                    deque(todo, maxlen=0)  # The other threads start no further task.

        with ThreadPoolExecutor(count) as pool, ExitStack() as stack:
            others = [stack.enter_context(_started(work)) for _ in tasks[1:count]]
            threads = [pool.submit(drain, ask) for ask in others]
            drain(work)
            wait(threads)
        if failed:
            raise failed[min(failed)]
        return [done[at] for at in range(len(tasks))]

    return spread


@contextmanager
def _started(work: Callable[[Any], Any]) -> Iterator[Callable[[Any], Any]]:
    """Yields `work` run by another process, which is killed if the block fails."""
    ours, theirs = Pipe()
    handle = theirs.fileno()
    command = [sys.executable, "-c", _WORKER, str(handle), *sys.path]
    # In its own session: only this process handles Ctrl-C.
    with subprocess.Popen(command, pass_fds=[handle], start_new_session=True) as process:
        try:
            theirs.close()
            with ours:
                ours.send(work)
                yield partial(_ask, process, ours)
        except BaseException:
            process.kill()
            raise


def _ask(process: subprocess.Popen[bytes], other: Connection, task: Any) -> Any:
    try:
        other.send(task)
        answer = other.recv()
    except (EOFError, OSError) as error:
        if (code := process.wait()) != -signal.SIGKILL:
            raise DataError(
                f"a process that scans was lost, with exit code {code}; it may have written why, "
                "and one worker scans in this process"
            ) from error
        raise DataError(
            "a process that scans was lost; the system kills one where memory runs out: use fewer "
            "workers, or give more memory"
        ) from error
    if isinstance(answer, Exception):
        raise answer
    return answer


def _serve(handle: str) -> None:
    """Main loop of such a process, until the parent ends or closes the pipe."""
    with Connection(int(handle)) as asked, suppress(EOFError, ConnectionError):
        work = asked.recv()
        while True:
            asked.send_bytes(_answer(work, asked.recv()))


def _answer(work: Callable[[Any], Any], task: Any) -> bytes:
    """Returns the pickled result of a task, or its error; for a bug the traceback."""
    try:
        try:
            return pickle.dumps(work(task))
        except (PenstockError, OSError) as error:
            pickle.loads(pickled := pickle.dumps(error))  # Some cannot be unpickled.
            return pickled
    except Exception:
        return pickle.dumps(RuntimeError(traceback.format_exc()))
