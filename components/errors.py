"""Errors caused by users or data, each as one clear line.

The command line prints a `PenstockError` on stderr without a traceback and exits with its
`exit_code`. Any other exception that reaches the command line is a bug.
"""

import difflib
import errno
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

# Lines of TensorFlow's messages that name no cause: empty lines, a node's name, the line that ends
# a list of several errors.
_NO_CAUSE = re.compile(r"$|\[\[|\d+ (?:successful operations|derived errors ignored)\.$")


class PenstockError(Exception):
    """Base class of errors that the input or the user causes, not the code."""

    exit_code = 1


class DataError(PenstockError):
    """Error in the data; the message states place, finding, expectation and remedy."""


class TriesFailedError(DataError):
    """A disk or server failed repeatedly; a later try may succeed."""


class UsageError(PenstockError, ValueError):
    """A wrong option or name, or a wrong combination; the message says what is allowed."""

    exit_code = 2


@contextmanager
def naming(path: str | os.PathLike[str]) -> Iterator[None]:
    """Adds the path to an OSError that has none, such as the error of a write to a full disk."""
    try:
        yield
    except OSError as error:
        if error.filename is None:
            error.filename = os.fspath(path)
        raise


FULL_ADVICE = "free space or inodes there (df -h, df -i), or name another disk"
_REMEDIES = {
    errno.ENOSPC: FULL_ADVICE,
    errno.EDQUOT: FULL_ADVICE,
    errno.EMFILE: "raise the limit on open files (ulimit -n)",
    errno.ENFILE: "raise the system's limit on open files (fs.file-max)",
}


def one_line(error: Exception) -> str:
    """Returns an error's message; for a system error: path, reason and, if known, remedy."""
    if isinstance(error, MemoryError):
        told = f" ({error})" if str(error) else ""
        return f"out of memory{told}; use fewer workers or more shards, or add memory"
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {reason(error)}" if error.filename else reason(error)
    return str(error)


def reason(error: OSError) -> str:
    """Returns the system's reason for an error, and the remedy if known."""
    remedy = _REMEDIES.get(error.errno or 0)
    return f"{error.strerror}; {remedy}" if remedy else str(error.strerror)


def nearest(name: str, names: Iterable[str]) -> str:
    """Suggests the closest of `names` for a misspelt one, or lists them all."""
    names = [*names]
    near = difflib.get_close_matches(name, names, n=1)
    return f"did you mean {near[0]!r}?" if near else f"choices: {', '.join(names)}"


def short_error(error: BaseException, limit: int = 200) -> str:
    """Returns an error's text, or else its class, on one line of at most `limit` characters."""
    return " ".join(str(error).split())[:limit] or type(error).__name__


def graph_cause(message: str) -> str:
    """Extracts the cause from TensorFlow's message, which also has a traceback and a node name."""
    lines = [line.strip() for line in message.splitlines()]
    return next((line for line in reversed(lines) if not _NO_CAUSE.match(line)), message)


def counted(number: float, noun: str) -> str:
    """Formats a count: `no faults`, `1 fault`, `1,234 faults`, `1.5 cores`."""
    amount = f"{round(number, 2):,}".removesuffix(".0") if number else "no"
    return f"{amount} {noun}" if number == 1 else f"{amount} {noun}s"
