"""Ctrl-C and SIGTERM end a command at once, with one line and exit code 130.

Python raises KeyboardInterrupt in the main thread and leaves the rest to the code that runs there.
That is not enough with Beam and TensorFlow: one raised inside a callback of C++ is dropped, one
in Beam's worker comes out as a RuntimeError, and threads that wait for work that never comes hold
the end of the process. So it is raised again where it was dropped, whatever comes out of an
interrupted command counts as the interrupt, and the process ends without waiting for threads.
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

# `timeout` and terminals may send a signal twice; what comes later is a person's second Ctrl-C.
_SAME_SECONDS = 1.0
_LOOK_SECONDS = 0.1
# Seconds for cleaning up before the process exits regardless; `penstock run` writes its report.
_MAX_END_SECONDS = 30.0
_MAX_EXIT_SECONDS = 2.0


class CommandInterruptedError(PenstockError):
    """Ctrl-C or SIGTERM; the message says what is left of the work."""

    exit_code = EXIT_CODE


class Interrupts:
    """Whether a signal came."""

    def __init__(self) -> None:
        self.came = False
        self._owner = os.getpid()
        self._first_seconds = 0.0
        self._is_dropped = False

    def drop(self) -> None:
        """The exception was handled, or swallowed by a callback."""
        self._is_dropped = True

    def on_signal(self, number: int, _frame: FrameType | None) -> None:
        """Raise KeyboardInterrupt for the first signal; end the process upon a later one."""
        if os.getpid() != self._owner:  # a fork of ours, without anything of its own to clean up
            os._exit(EXIT_CODE)
        if self._is_dropped:
            self._is_dropped = False
            raise _Interrupt(self)
        if not self.came:
            self.came = True
            self._first_seconds = time.monotonic()
            _be_silent()
            kill_children()
            # Not `threading`, whose lock the interrupted code may hold.
            _thread.start_new_thread(self._watch, ())
            raise _Interrupt(self)
        if time.monotonic() - self._first_seconds > _SAME_SECONDS:
            kill_children()
            os._exit(EXIT_CODE)

    def end(self, code: int) -> NoReturn:
        """End the process, which keeps nobody waiting for threads that may never end."""
        for number in _SIGNALS:
            signal.signal(number, signal.SIG_IGN)
        _thread.start_new_thread(_end_after, (_MAX_EXIT_SECONDS, code))
        kill_children()
        # Copies of remote files and the like are removed by these; `os._exit` calls none.
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
    """Tells when nobody holds it any more: as long as it is under way, somebody does."""

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
    """Around work that leaves nothing when interrupted: CommandInterruptedError if it was."""
    try:
        yield
    except BaseException as error:
        if was_interrupted(error):
            raise CommandInterruptedError("interrupted; nothing was written") from error
        raise


def was_interrupted(error: BaseException) -> bool:
    """Whether an error is Ctrl-C's or SIGTERM's doing, however Beam wrapped it."""
    if isinstance(error, KeyboardInterrupt) or (_interrupts is not None and _interrupts.came):
        return True
    return isinstance(error, RuntimeError) and str(error).startswith("KeyboardInterrupt")


def kill_children() -> None:
    import psutil

    for child in psutil.Process().children(recursive=True):
        with suppress(psutil.NoSuchProcess):  # gone meanwhile
            child.kill()


def _be_silent() -> None:
    logging.disable(logging.CRITICAL)
    threading.excepthook = lambda _: None
    sys.unraisablehook = lambda _: None
