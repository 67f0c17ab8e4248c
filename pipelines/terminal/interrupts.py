"""Ctrl-C and SIGTERM end a command within seconds, with one line and exit code 130.

The signal raises KeyboardInterrupt in the main thread, so that unfinished outputs are removed. With
Beam and TensorFlow this is not enough: a callback of C++ drops the exception, libraries turn it
into another one, and threads that wait for work keep the process alive. So any error of an
interrupted command counts as the interrupt, and the process ends soon in any case. The process can
safely end at any point in the code, because each output appears by one rename.
"""

import _thread
import atexit
import logging
import os
import signal
import sys
import threading
import time
from contextlib import suppress
from types import FrameType
from typing import NoReturn

EXIT_CODE = 130
_SIGNALS = (signal.SIGINT, signal.SIGTERM)
# Maximum number of seconds for cleaning up and for the last work, such as the report of a run.
_MAX_SECONDS = 10.0

_came = False


def catch_interrupts() -> None:
    """Catches Ctrl-C and SIGTERM until the process ends; signals after the first are ignored."""
    owner = os.getpid()

    def stop(_number: int, _frame: FrameType | None) -> None:
        global _came
        if os.getpid() != owner:  # a fork, which has nothing to clean up
            os._exit(EXIT_CODE)
        if _came:
            return
        _came = True
        logging.disable(logging.CRITICAL)
        threading.excepthook = lambda _: None
        sys.unraisablehook = lambda _: None
        kill_children()
        # `_thread` is used because `threading` takes a lock to start a thread, and the interrupted
        # code may already hold this lock.
        _thread.start_new_thread(_end_after, (_MAX_SECONDS,))
        raise KeyboardInterrupt

    for number in _SIGNALS:
        signal.signal(number, stop)


def was_interrupted(error: BaseException) -> bool:
    """Returns whether Ctrl-C or SIGTERM caused an error, be it KeyboardInterrupt or another."""
    return _came or isinstance(error, KeyboardInterrupt)


def end_interrupted() -> NoReturn:
    """Ends the process without waiting for threads, which may never end."""
    _thread.start_new_thread(_end_after, (_MAX_SECONDS,))
    kill_children()
    # Exit functions remove copies of remote files, for example; `os._exit` would not call them.
    atexit._run_exitfuncs()
    os._exit(EXIT_CODE)


def kill_children() -> None:
    import psutil

    for child in psutil.Process().children(recursive=True):
        with suppress(psutil.NoSuchProcess):  # already gone
            child.kill()


def _end_after(seconds: float) -> NoReturn:
    time.sleep(seconds)
    os.write(2, b"penstock: interrupted\n")
    os._exit(EXIT_CODE)
