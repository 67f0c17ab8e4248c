"""Ctrl-C and SIGTERM end a command at once, with one line and exit code 130.

Python raises KeyboardInterrupt in the main thread. That is not enough with Beam and TensorFlow:
inside a callback of C++ the exception is dropped, in Beam's worker it becomes a RuntimeError, and
threads that wait for work keep the process alive. So a dropped exception is raised again, any error
of an interrupted command counts as the interrupt, and the process ends without waiting for threads.
"""

import _thread
import atexit
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import NoReturn

from penstock.components.errors import PenstockError

EXIT_CODE = 130
_SIGNALS = (signal.SIGINT, signal.SIGTERM)

# `timeout` and terminals may send a signal twice within this time; a later one is a second Ctrl-C.
_SAME_SECONDS = 1.0
_LOOK_SECONDS = 0.1
# Most seconds for cleaning up, such as the report of `penstock run`; then the process exits.
_MAX_END_SECONDS = 30.0
_MAX_EXIT_SECONDS = 2.0


class CommandInterruptedError(PenstockError):
    """Ctrl-C or SIGTERM came; the message says what was written."""

    exit_code = EXIT_CODE


class Interrupts:
    """State and handler of the signals Ctrl-C and SIGTERM."""

    def __init__(self) -> None:
        self.came = False
        self._owner = os.getpid()
        self._first_seconds = 0.0
        self._is_dropped = False

    def drop(self) -> None:
        """Notes that the exception was handled, or dropped by a callback."""
        self._is_dropped = True

    def on_signal(self, number: int, _frame: FrameType | None) -> None:
        """Raise KeyboardInterrupt for the first signal; end the process upon a later one."""
        if os.getpid() != self._owner:  # a fork, which has nothing to clean up
            os._exit(EXIT_CODE)
        if self._is_dropped:
            self._is_dropped = False
            raise _Interrupt(self)
        if not self.came:
            self.came = True
            self._first_seconds = time.monotonic()
            _be_silent()
            kill_children()
            # Not by `threading`: the interrupted code may hold its lock.
            _thread.start_new_thread(self._watch, ())
            raise _Interrupt(self)
        if time.monotonic() - self._first_seconds > _SAME_SECONDS:
            kill_children()
            os._exit(EXIT_CODE)

    def end(self, code: int) -> NoReturn:
        """End the process without waiting for threads, which may never end."""
        for number in _SIGNALS:
            signal.signal(number, signal.SIG_IGN)
        _thread.start_new_thread(_end_after, (_MAX_EXIT_SECONDS, code))
        kill_children()
        # Exit functions remove copies of remote files and so on; `os._exit` would not call them.
        atexit._run_exitfuncs()
        os._exit(code)

    def _watch(self) -> None:
        _thread.start_new_thread(_end_after, (_MAX_END_SECONDS, EXIT_CODE))
        main = threading.main_thread().ident
        assert main is not None
        while True:
            time.sleep(_LOOK_SECONDS)
            if self._is_dropped:
                signal.pthread_kill(main, signal.SIGINT)


def _end_after(seconds: float, code: int) -> NoReturn:
    time.sleep(seconds)
    os._exit(code)


class _Interrupt(KeyboardInterrupt):
    """Reports its own deletion: Python deletes an exception after it is handled or dropped."""

    def __init__(self, interrupts: Interrupts) -> None:
        super().__init__()
        self._interrupts = interrupts

    def __del__(self) -> None:
        self._interrupts.drop()


_interrupts: Interrupts | None = None


def catch_interrupts() -> Interrupts:
    """Catch Ctrl-C and SIGTERM from here on, until the process ends."""
    global _interrupts
    _interrupts = Interrupts()
    for number in _SIGNALS:
        signal.signal(number, _interrupts.on_signal)
    return _interrupts


@contextmanager
def whole_or_nothing() -> Iterator[None]:
    """Raises CommandInterruptedError if the block is interrupted.

    For work that leaves nothing behind when it is interrupted.
    """
    try:
        yield
    except BaseException as error:
        if was_interrupted(error):
            raise CommandInterruptedError("interrupted; nothing was written") from error
        raise


def was_interrupted(error: BaseException) -> bool:
    """Returns whether Ctrl-C or SIGTERM caused an error, even one that Beam wrapped."""
    if isinstance(error, KeyboardInterrupt) or (_interrupts is not None and _interrupts.came):
        return True
    return isinstance(error, RuntimeError) and str(error).startswith("KeyboardInterrupt")


def kill_children() -> None:
    import psutil

    for child in psutil.Process().children(recursive=True):
        with suppress(psutil.NoSuchProcess):  # already gone
            child.kill()


def _be_silent() -> None:
    logging.disable(logging.CRITICAL)
    threading.excepthook = lambda _: None
    sys.unraisablehook = lambda _: None
