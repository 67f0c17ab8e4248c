"""Outputs that a killed process left half published: found by any reader, and put back.

`files/commit.py` publishes by rename. Where it replaces an output, the old one steps aside first;
whoever comes next after a kill between the two renames puts it back under its name.
"""

import fcntl
import os
import shutil
from itertools import takewhile
from pathlib import Path
from typing import TextIO

ATTEMPT_MARK = ".penstock-attempt-"
LOCK = ".lock"
REPLACED = "-replaced"


def recover(path: str | os.PathLike[str]) -> None:
    """Put back what stood at a path, or at a folder above it, if a killed process took it away.

    If the path exists nothing else is looked at.
    """
    if "://" in str(path):
        return
    place = Path(os.path.abspath(path))
    for missing in takewhile(lambda one: not one.exists(), (place, *place.parents)):
        for lock in _locks_of(missing):
            remove_attempt(lock)


def _locks_of(target: Path) -> list[Path]:
    """The locks of the attempts at an output."""
    start = f".{target.name}{ATTEMPT_MARK}"
    try:
        names = os.listdir(target.parent)
    except OSError:
        return []
    return [target.with_name(n) for n in names if n.startswith(start) and n.endswith(LOCK)]


def remove_attempt(lock: Path) -> None:
    """Remove the attempt of a lock that no process holds, and put back what it had replaced."""
    try:
        with lock.open("r+") as held:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
            clear(lock.with_name(lock.name.removesuffix(LOCK)))
            lock.unlink(missing_ok=True)
    except OSError:
        return  # at work, gone meanwhile, or another user's


def clear(folder: Path) -> None:
    """Remove the folder of an attempt, and put back what it had replaced if nothing came of it."""
    shutil.rmtree(folder, ignore_errors=True)
    replaced = folder.with_name(folder.name + REPLACED)
    target = folder.with_name(folder.name.split(ATTEMPT_MARK)[0].removeprefix("."))
    if replaced.exists() and not target.exists():
        replaced.rename(target)  # stopped between the two renames of `commit._publish`
    shutil.rmtree(replaced, ignore_errors=True)


def locked(path: Path) -> TextIO:
    """A new lock file, open and locked until it is closed; a process that dies lets it go."""
    while True:
        held = path.open("w")
        fcntl.flock(held, fcntl.LOCK_EX)
        # Another process may have taken it for abandoned before it was locked.
        if path.exists() and os.path.samestat(os.fstat(held.fileno()), path.stat()):
            return held
        held.close()
