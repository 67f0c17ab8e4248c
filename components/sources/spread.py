"""How the tasks of a scan are done: in this process, in several here, or by those of an engine."""

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

# Of less several processes save little: one takes 0.5 s to start, in which 150 MiB are scanned.
_WORTH_PROCESSES_BYTES = 256 * MIB
# A command of our own, because multiprocessing's imports the user's script once more.
# Its modules are those of this process, whatever lies in the folder where the user stands.
_WORKER = (
    "import sys; sys.path[:] = sys.argv[2:]; "
    "from penstock.components.sources import spread; spread._serve(sys.argv[1])"
)


class Spread(Protocol):
    """Does the tasks of a scan."""

    def __call__(
        self, work: Callable[[Task], Result], tasks: Sequence[Task], input_bytes: int
    ) -> list[Result]:
        """What `work` gives for each task, in order.

        Args:
            work: Picklable, as are tasks and results.
            tasks: What it is called with.
            input_bytes: How much there is to read in all.

        Raises:
            DataError: That of a task, or a process was lost.
        RuntimeError: The traceback of what else stopped a task in another process.
        """
        ...


def here(work: Callable[[Task], Result], tasks: Sequence[Task], input_bytes: int) -> list[Result]:
    """In this process."""
    del input_bytes
    return [work(task) for task in tasks]


def processes(count: int) -> Spread:
    """By this process and others of this machine, `count` in all, where there is much to read.

    They import what a scan needs and no Beam: 0.5 s of CPU each, where a worker of Beam's takes 3.
    """

    def spread(
        work: Callable[[Task], Result], tasks: Sequence[Task], input_bytes: int
    ) -> list[Result]:
        if count < 2 or len(tasks) < 2 or input_bytes < _WORTH_PROCESSES_BYTES:
            return here(work, tasks, input_bytes)
        todo = iter(enumerate(tasks))  # of all threads
        done, failed = dict[int, Result](), dict[int, Exception]()

        def drain(do: Callable[[Task], Result]) -> None:
            for at, task in todo:
                try:
                    done[at] = do(task)
                except Exception as error:
                    failed[at] = error
                    deque(todo, maxlen=0)  # the others begin no more

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
    """`work` by a process of its own, which is killed where the block fails."""
    ours, theirs = Pipe()
    handle = theirs.fileno()
    command = [sys.executable, "-c", _WORKER, str(handle), *sys.path]
    # In a session of its own: Ctrl-C is left to this process.
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
    """Be such a process, until the one that started it ends or wants no more."""
    with Connection(int(handle)) as asked, suppress(EOFError, ConnectionError):
        work = asked.recv()
        while True:
            asked.send_bytes(_answer(work, asked.recv()))


def _answer(work: Callable[[Any], Any], task: Any) -> bytes:
    """Pickled, what the task gives, or what stops it; of a bug its traceback."""
    try:
        try:
            return pickle.dumps(work(task))
        except (PenstockError, OSError) as error:
            pickle.loads(pickled := pickle.dumps(error))  # not all can be
            return pickled
    except Exception:
        return pickle.dumps(RuntimeError(traceback.format_exc()))
