"""Errors that are the user's or the data's, as one clear line each.

The command line prints the message of a `PenstockError` on stderr without a
traceback and exits with its `exit_code`. Everything else that escapes is a bug.
"""

import difflib
import errno
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager


class PenstockError(Exception):
    """Base of the errors that are the input's or the user's, not the code's."""

    exit_code = 1


class DataError(PenstockError):
    """The data is bad: says what, where, what was expected and what to do."""


class TriesFailedError(DataError):
    """A disk or a server went on failing; later, or from another machine, it may not."""


class UsageError(PenstockError, ValueError):
    """An option, a name or a combination of them is wrong: lists the choices."""

    exit_code = 2


@contextmanager
def naming(path: str | os.PathLike[str]) -> Iterator[None]:
    """Let an error of the system say the path where it names none, as of a write to a full disk."""
    try:
        yield
    except OSError as error:
        if error.filename is None:
            error.filename = os.fspath(path)
        raise


_FULL = "free space or inodes there (df -h, df -i), or name another disk"
_REMEDIES = {
    errno.ENOSPC: _FULL,
    errno.EDQUOT: _FULL,
    errno.EMFILE: "raise the limit on open files (ulimit -n)",
    errno.ENFILE: "raise the system's limit on open files (fs.file-max)",
}


def one_line(error: Exception) -> str:
    """Formats an error as one line; one of the system by path, reason and, if known, remedy."""
    if isinstance(error, OSError) and error.strerror:
        text = f"{error.filename}: {error.strerror}" if error.filename else error.strerror
        return f"{text}; {_REMEDIES[error.errno]}" if error.errno in _REMEDIES else text
    return str(error)


def nearest(name: str, names: Iterable[str]) -> str:
    """What a name that is none of `names` may have been meant to be, else all of them."""
    names = [*names]
    near = difflib.get_close_matches(name, names, n=1)
    return f"did you mean {near[0]!r}?" if near else f"choices: {', '.join(names)}"


def short_error(error: BaseException, limit: int = 200) -> str:
    """The error's own words on one line, cut to `limit` characters; its class where it has none."""
    return " ".join(str(error).split())[:limit] or type(error).__name__


def counted(number: float, noun: str) -> str:
    """`no faults`, `1 fault`, `1,234 faults`, `1.5 cores`."""
    amount = f"{round(number, 2):,}".removesuffix(".0") if number else "no"
    return f"{amount} {noun}" if number == 1 else f"{amount} {noun}s"
