"""SIGTERM and Ctrl-C as a flag that the training loop looks at between steps."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from penstock.components.errors import PenstockError

_SIGNALS = (signal.SIGTERM, signal.SIGINT)


class TrainingInterruptedError(PenstockError):
    """Training was told to stop and saved its state; the next run goes on from there."""

    exit_code = 143  # a worker's, by which Kubeflow's operator starts it anew


class InterruptFlag:
    """Which signal came, if one did."""

    name: str | None = None


@contextmanager
def interrupts() -> Iterator[InterruptFlag]:
    """Catch the first SIGTERM or Ctrl-C; the second does what it did before.

    Outside the main thread Python sets no signal handlers: the flag then stays down.
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
