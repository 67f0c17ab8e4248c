"""Redirects the output of libraries from the screen to a file.

TensorFlow, TFX and Beam write through Python's logging and warnings, and from C++ directly to
stderr; so the file descriptors themselves are redirected.
"""

import atexit
import logging
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TextIO

from penstock.components.files.secrets import without_secrets


class Noise:
    """Log file for the library output, and a console without that output.

    Attributes:
        log: File that receives the output; a temporary file until `keep_in` is called.
    """

    def __init__(self, screen: TextIO, log: Path) -> None:
        self.screen = screen
        self.log = log
        self.is_kept = False

    def keep_in(self, log: Path) -> None:
        """Moves the output so far to another file, which also receives all later output."""
        log.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(self.log, log)
        self.log.unlink()
        self.log = log
        self.is_kept = True
        _turn_to(log)


@contextmanager
def noise_to_log() -> Iterator[Noise]:
    """Redirects stdout and stderr of the whole process to a file during the block."""
    stdout, stderr = os.dup(1), os.dup(2)
    handle, name = tempfile.mkstemp(prefix="penstock-", suffix=".log")
    os.close(handle)
    noise = Noise(os.fdopen(os.dup(stderr), "w", buffering=1), Path(name))
    _turn_to(noise.log)
    try:
        with _logging():
            yield noise
    finally:
        _flush()
        os.dup2(stdout, 1)
        os.dup2(stderr, 2)
        os.close(stdout)
        os.close(stderr)
        with suppress(OSError):  # the screen is closed, or is a file on a full disk
            noise.screen.close()
        if not noise.is_kept:
            noise.log.unlink()
        # TensorFlow's finalizers print tracebacks when the interpreter shuts down.
        atexit.register(_turn_to, noise.log if noise.is_kept else Path(os.devnull))


def _turn_to(log: Path) -> None:
    _flush()
    # At exit, the log and its folder may no longer exist.
    descriptor = os.open(log if log.exists() else os.devnull, os.O_WRONLY | os.O_APPEND)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    os.close(descriptor)


class _SafeFormatter(logging.Formatter):
    """Redacts secrets in log records, because TFX logs all options of each node."""

    def format(self, record: logging.LogRecord) -> str:
        return without_secrets(super().format(record))


@contextmanager
def _logging() -> Iterator[None]:
    """Logs INFO too: at this level TFX logs which execution it runs, on which inputs, and why."""
    from absl import logging as absl_logging

    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_SafeFormatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    root = logging.getLogger()
    levels = root.level, absl_logging.get_verbosity()
    root.addHandler(handler)
    root.setLevel(logging.INFO)
    absl_logging.set_verbosity(absl_logging.INFO)
    try:
        yield
    finally:
        root.removeHandler(handler)
        root.setLevel(levels[0])
        absl_logging.set_verbosity(levels[1])


def _flush() -> None:
    sys.stdout.flush()
    sys.stderr.flush()
