"""Restores outputs that a killed process left half replaced; any reader may find such an output.

Such an output occurs only on file systems that cannot exchange two folders in one step
(`files/commit.py`), because there the old output is renamed before the new one gets its name. After
a kill between these two renames, the next reader or writer restores the old output.
"""

import fcntl
import hashlib
import os
import shutil
import uuid
from itertools import takewhile
from pathlib import Path
from typing import TextIO

ATTEMPT_MARK = ".penstock-attempt-"
LOCK = ".lock"
_REPLACED = "-replaced"
# Maximum length of an output's name; in the names of its attempts, a hash replaces a longer name.
# With the mark, an id and the longest suffix, an attempt's name then has less than 255 bytes.
_MAX_STEM_BYTES = 200


def attempt_folder(target: Path) -> Path:
    """Returns a new path beside an output; one attempt writes the new output there."""
    return target.with_name(f"{_prefix(target)}{uuid.uuid4().hex[:12]}")


def recover(path: str | os.PathLike[str]) -> None:
    """Restores an output that a killed process had renamed, at a path or at a folder above it.

    Does nothing if the path exists.
    """
    if "://" in str(path):
        return
    place = Path(os.path.abspath(path))
    for missing in takewhile(lambda one: not one.exists(), (place, *place.parents)):
        for lock in _locks_of(missing):
            remove_attempt(lock)


def remove_attempt(lock: Path) -> None:
    """Removes a lock's attempt and restores the old output, unless a process holds the lock."""
    try:
        with lock.open("r+b") as held:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
            folder = lock.with_name(lock.name.removesuffix(LOCK))
            # The lock file contains the output's name, unless the process that created it was
            # killed right afterwards.
            clear(folder, lock.with_name(os.fsdecode(held.read()) or folder.name))
    except (OSError, ValueError):  # lock in use, removed, another user's, or with an invalid name
        return


def set_aside(folder: Path, target: Path) -> None:
    """Renames the old output, so that the attempt can take its name."""
    target.rename(folder.with_name(folder.name + _REPLACED))


def clear(folder: Path, target: Path) -> None:
    """Removes an attempt, and restores the old output if there is no new one."""
    shutil.rmtree(folder, ignore_errors=True)
    replaced = folder.with_name(folder.name + _REPLACED)
    if replaced.exists() and not target.exists():
        replaced.rename(target)
    shutil.rmtree(replaced, ignore_errors=True)
    if not (folder.exists() or replaced.exists()):  # otherwise the next attempt removes them
        folder.with_name(folder.name + LOCK).unlink(missing_ok=True)


def locked(path: Path) -> TextIO:
    """Creates a lock file and returns it open; the lock is held until the file is closed."""
    while True:
        held = path.open("w")
        fcntl.flock(held, fcntl.LOCK_EX)
        # Another process may have removed the file as abandoned before it was locked.
        if path.exists() and os.path.samestat(os.fstat(held.fileno()), path.stat()):
            return held
        held.close()


def _prefix(target: Path) -> str:
    name = os.fsencode(target.name)
    stem = target.name if len(name) <= _MAX_STEM_BYTES else hashlib.sha256(name).hexdigest()[:32]
    return f".{stem}{ATTEMPT_MARK}"


def _locks_of(target: Path) -> list[Path]:
    start = _prefix(target)
    try:
        names = os.listdir(target.parent)
    except OSError:
        return []
    return [target.with_name(n) for n in names if n.startswith(start) and n.endswith(LOCK)]
