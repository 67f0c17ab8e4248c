"""Errors and exit codes of a training that is ended by SIGTERM, Ctrl-C or a lost worker."""

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType

from penstock.components.errors import PenstockError

_SIGNALS = (signal.SIGTERM, signal.SIGINT)


class TrainingInterruptedError(PenstockError):
    """A signal stopped the training.

    If the training has a `resume_dir`, its state is saved there, and the next run resumes from it.
    """

    exit_code = 143  # the exit code of a process that SIGTERM ended


class WorkerLostError(PenstockError):
    """Another worker has stopped or never started; the training resumes when all workers run."""

    exit_code = 138


_hook_before = sys.excepthook


def end_scripts_with_exit_codes() -> None:
    """Makes an interrupted script end like a `penstock` command.

    The script then prints one line to stderr and exits with the error's exit code.
    """
    global _hook_before
    if sys.excepthook is not _end:
        _hook_before, sys.excepthook = sys.excepthook, _end


def _end(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    if isinstance(error, TrainingInterruptedError | WorkerLostError):
        print(f"penstock: {error}", file=sys.stderr)
        raise SystemExit(error.exit_code)  # in an excepthook, this sets the exit code
    _hook_before(kind, error, trace)


class InterruptFlag:
    name: str | None = None


@contextmanager
def interrupts() -> Iterator[InterruptFlag]:
    """Catches the first SIGTERM or Ctrl-C; the next one has its usual effect.

    Python allows signal handlers only in the main thread; in other threads, the flag's `name` stays
    None.
    """
    flag = InterruptFlag()
    if threading.current_thread() is not threading.main_thread():
        yield flag
        return
    before = {number: signal.getsignal(number) for number in _SIGNALS}

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    def raise_flag(number: int, _frame: FrameType | None) -> None:
        flag.name = signal.Signals(number).name
        restore()

    for number in _SIGNALS:
        signal.signal(number, raise_flag)
    try:
        yield flag
    finally:
        restore()
