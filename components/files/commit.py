"""Outputs that become visible by one rename when complete; each attempt has its own folder.

Readers see the whole output or nothing. To replace an old output, its folder and the new one are
exchanged in one step, if the file system can do this; then one of them is visible at every moment.
A killed attempt leaves a folder whose lock is free; the next attempt in the same parent folder
removes it.
"""

import errno
import logging
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from penstock.components.errors import DataError, TriesFailedError, UsageError, naming
from penstock.components.tfrecord.manifest import MANIFEST_NAME, Manifest, read_manifest
from penstock.components.tfrecord.recovery import (
    ATTEMPT_MARK,
    LOCK,
    attempt_folder,
    clear,
    locked,
    recover,
    remove_attempt,
    set_aside,
)

_LOG = logging.getLogger(__name__)

# One slash is enough here, because `Path` reduces the two slashes of an address to one.
_ADDRESS = re.compile(r"^[a-z][a-z0-9+.-]+:/", re.I)
_MAX_NAMED = 3
_AT_FDCWD = -100
_RENAME_EXCHANGE = 2
_RENAME_SWAP = 2  # macOS
# NFS and some FUSE mounts cannot exchange names.
_NO_EXCHANGE = {errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOTSUP}


@contextmanager
def attempt(target: str | os.PathLike[str], *, overwrite: bool | None = False) -> Iterator[Path]:
    """Yields a new, empty folder beside `target`; it becomes `target` if the `with` block succeeds.

    Raises UsageError if `target` is not empty and `overwrite` is off (None: the command has no such
    option), or if it contains a file that no manifest of Penstock lists.
    """
    target = check_target(target, overwrite=overwrite)
    with beside(target) as folder:
        yield folder
        _publish(folder, target, overwrite=overwrite)


@contextmanager
def attempt_file(target: str | os.PathLike[str], *, overwrite: bool = True) -> Iterator[Path]:
    """Yields a path to write to; the file becomes `target` if the `with` block succeeds.

    Raises UsageError if `target` exists when the block ends, and `overwrite` is off.
    """
    with beside(Path(os.path.abspath(target))) as folder:
        file = folder / os.path.basename(target)
        yield file
        if os.path.lexists(target) and not overwrite:
            raise occupied(target)
        os.replace(file, target)


def check_file(target: str | os.PathLike[str], *, overwrite: bool = False) -> None:
    """Raises a UsageError, before any work is done, if an output file cannot be written."""
    _refuse_address(target)
    if os.path.isdir(target):
        raise UsageError(f"{target}: is a folder; name a file")
    if os.path.exists(target) and not os.path.isfile(target):
        raise UsageError(f"{target}: not a regular file; refusing to replace it; name another")
    if os.path.lexists(target) and not overwrite:
        raise occupied(target)
    _refuse_place(target)


@contextmanager
def beside(target: Path) -> Iterator[Path]:
    """Yields a new, empty folder beside `target`, which is removed after the `with` block."""
    target.parent.mkdir(parents=True, exist_ok=True)
    remove_abandoned(target.parent)
    folder = attempt_folder(target)
    lock = folder.with_name(folder.name + LOCK)
    with naming(target), locked(lock) as held:
        try:
            os.write(held.fileno(), os.fsencode(target.name))
            folder.mkdir()
            yield folder
        finally:
            clear(folder, target)


def check_target(target: str | os.PathLike[str], *, overwrite: bool | None = False) -> Path:
    """Checks an output folder and returns its absolute path, resolved if it is a link."""
    _refuse_address(target)
    _refuse_place(target)
    path = Path(os.path.abspath(target))
    if path.is_symlink():
        path = path.resolve()
    recover(path)
    _refuse_occupied(path, overwrite=overwrite)
    return path


def remove_abandoned(parent: Path) -> None:
    for lock in parent.glob(f".*{ATTEMPT_MARK}*{LOCK}"):
        remove_attempt(lock)


def exchange(first: Path, second: Path) -> bool:
    """Exchanges the names of two folders in one step; False if the file system cannot do this."""
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    names = os.fsencode(first), os.fsencode(second)
    if sys.platform == "darwin":
        result = libc.renamex_np(*names, _RENAME_SWAP)
    elif hasattr(libc, "renameat2"):
        result = libc.renameat2(_AT_FDCWD, names[0], _AT_FDCWD, names[1], _RENAME_EXCHANGE)
    else:  # glibc below 2.28 has no renameat2
        return False
    number = ctypes.get_errno()
    if result and number not in _NO_EXCHANGE:
        raise OSError(number, os.strerror(number), str(second))
    return not result


def _refuse_address(target: str | os.PathLike[str]) -> None:
    if _ADDRESS.match(str(target)):
        raise UsageError(
            f"{target}: output must be a local or mounted path; mount the bucket "
            "(gcsfuse, a CSI driver) and name the mount point"
        )


def _refuse_place(target: str | os.PathLike[str]) -> None:
    # `Path.exists` is not used, because it raises an error in a folder without search permission.
    path = Path(os.path.abspath(target))
    above = next(one for one in (*path.parents, path) if os.path.exists(one))  # `/` has no parents
    if not (above.is_dir() and os.access(above, os.W_OK | os.X_OK)):
        problem = "you may not write there" if above.is_dir() else "is a file"
        raise UsageError(f"{target}: {above}: {problem}; name another output")


def _refuse_occupied(target: Path, *, overwrite: bool | None) -> None:
    if not target.exists() or (target.is_dir() and not any(target.iterdir())):
        return
    if not overwrite:
        raise occupied(target, overwrite)
    _refuse_foreign(target, target)
    for folder, _, _ in os.walk(target):
        if not os.access(folder, os.W_OK | os.X_OK):
            raise UsageError(
                f"{target}: {folder}: you may not delete what is there; name another output"
            )


def _refuse_foreign(folder: Path, target: Path) -> None:
    if not (folder / MANIFEST_NAME).is_file():
        raise _not_ours(target, f"no {MANIFEST_NAME}")
    refuse_foreign(target, lambda: read_manifest(folder), _names_below(folder))


def refuse_foreign(
    target: str | os.PathLike[str], read: Callable[[], Manifest], names: Iterable[str]
) -> None:
    """Raises a UsageError if an output's manifest cannot be read, or does not list all `names`."""
    try:
        foreign = read().foreign_files(names)
    except TriesFailedError:
        raise
    except DataError as error:
        raise _not_ours(
            target, f"its {MANIFEST_NAME} is not one of Penstock's, or damaged"
        ) from error
    if foreign:
        more = len(foreign) - _MAX_NAMED
        shown = ", ".join(foreign[:_MAX_NAMED]) + (f" and {more} more" if more > 0 else "")
        raise UsageError(
            f"{target}: holds {shown}, which its {MANIFEST_NAME} does not list; refusing to "
            "delete what Penstock did not write: move it away, or name another output"
        )


def _names_below(folder: Path) -> Iterator[str]:
    """Yields the relative names of all files below a folder; links are not followed."""
    for place, folders, names in os.walk(folder):
        links = (name for name in folders if os.path.islink(os.path.join(place, name)))
        yield from (os.path.relpath(os.path.join(place, n), folder) for n in (*names, *links))


def _not_ours(target: str | os.PathLike[str], reason: str) -> UsageError:
    return UsageError(
        f"{target}: not written by penstock ingest or pack ({reason}); refusing to overwrite it; "
        "name another output"
    )


def occupied(target: str | os.PathLike[str], overwrite: bool | None = False) -> UsageError:
    way = "" if overwrite is None else " or pass --overwrite"
    return UsageError(f"{target} exists already; name another output{way}")


def _publish(folder: Path, target: Path, *, overwrite: bool | None) -> None:
    _refuse_occupied(target, overwrite=overwrite)
    if not (overwrite and target.exists()):
        folder.rename(target)
    elif exchange(folder, target):
        try:
            if any(folder.iterdir()):  # a file may have appeared meanwhile
                _refuse_foreign(folder, target)
        except UsageError:
            exchange(folder, target)
            raise
    else:
        _LOG.warning(
            "%s: the file system cannot exchange two folders in one step; for a moment neither "
            "the old nor the new output stands there",
            target,
        )
        set_aside(folder, target)
        folder.rename(target)
