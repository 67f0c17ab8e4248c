"""A place of its own for each try at an output, which appears under its name by one rename.

Readers see all of an output or nothing. A try that was killed leaves a folder that no
process holds locked; the next try beside it removes it.
"""

import os
import re
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from penstock.components.errors import UsageError, naming
from penstock.components.tfrecord.manifest import MANIFEST_NAME
from penstock.components.tfrecord.recovery import (
    ATTEMPT_MARK,
    LOCK,
    REPLACED,
    clear,
    locked,
    recover,
    remove_attempt,
)

# A `Path` made of an address has one slash left.
_ADDRESS = re.compile(r"^[a-z][a-z0-9+.-]+:/", re.I)


@contextmanager
def attempt(target: str | os.PathLike[str], *, overwrite: bool | None = False) -> Iterator[Path]:
    """A new, empty folder beside `target`; it becomes `target` if the block succeeds.

    Args:
        target: The output folder; must not exist yet, or be empty.
        overwrite: Replace what stands there, once the new output is complete; None where the
            user cannot ask for it.

    Yields:
        The folder to write to.

    Raises:
        UsageError: `target` holds something and `overwrite` is off, or holds something else
            than an ingest's output, or it is no local path.
    """
    target = check_target(target, overwrite=overwrite)
    with beside(target) as folder:
        yield folder
        _publish(folder, target, overwrite=overwrite)


@contextmanager
def attempt_file(target: str | os.PathLike[str], *, overwrite: bool = True) -> Iterator[Path]:
    """A path to write to; the file becomes `target` if all goes well.

    Args:
        target: The output file.
        overwrite: Replace what is there by then.

    Raises:
        UsageError: Something came there meanwhile, and `overwrite` is off.
    """
    with beside(Path(os.path.abspath(target))) as folder:
        file = folder / os.path.basename(target)
        yield file
        if os.path.lexists(target) and not overwrite:
            raise _occupied(target)
        os.replace(file, target)


def check_file(target: str | os.PathLike[str], *, overwrite: bool = False) -> None:
    """Refuse an output file that cannot be made, before work is done for it.

    Raises:
        UsageError: It is an address, a folder or a device, its folder cannot be written to, or it
            is there and `overwrite` is off.
    """
    _refuse_address(target)
    if os.path.isdir(target):
        raise UsageError(f"{target}: is a folder; name a file")
    if os.path.exists(target) and not os.path.isfile(target):
        raise UsageError(f"{target}: not a regular file; refusing to replace it; name another")
    if os.path.lexists(target) and not overwrite:
        raise _occupied(target)
    _refuse_place(target)


@contextmanager
def beside(target: Path) -> Iterator[Path]:
    """A new, empty folder beside `target` while the block lasts; of the killed none stays."""
    target.parent.mkdir(parents=True, exist_ok=True)
    remove_abandoned(target.parent)
    folder = target.with_name(f".{target.name}{ATTEMPT_MARK}{uuid.uuid4().hex}")
    lock = folder.with_name(folder.name + LOCK)
    with locked(lock), naming(target):
        try:
            folder.mkdir()
            yield folder
        finally:
            clear(folder)
            lock.unlink(missing_ok=True)


def check_target(target: str | os.PathLike[str], *, overwrite: bool | None = False) -> Path:
    """The output folder's absolute path, if an attempt at it may begin.

    Raises:
        UsageError: As of `attempt`.
    """
    _refuse_address(target)
    _refuse_place(target)
    path = Path(os.path.abspath(target))
    recover(path)
    _refuse_occupied(path, overwrite=overwrite)
    return path


def remove_abandoned(parent: Path) -> None:
    """Remove the attempts in `parent` whose process is gone."""
    for lock in parent.glob(f".*{ATTEMPT_MARK}*{LOCK}*"):  # older versions left `.lock.new`
        remove_attempt(lock)


def _refuse_address(target: str | os.PathLike[str]) -> None:
    if _ADDRESS.match(str(target)):
        raise UsageError(
            f"{target}: output must be a local or mounted path; mount the bucket "
            "(gcsfuse, a CSI driver) and name the mount point"
        )


def _refuse_place(target: str | os.PathLike[str]) -> None:
    # Not `Path.exists`, which raises in a folder that may not be looked into.
    path = Path(os.path.abspath(target))
    above = next(one for one in (*path.parents, path) if os.path.exists(one))  # `/` is below none
    if not (above.is_dir() and os.access(above, os.W_OK | os.X_OK)):
        problem = "you may not write there" if above.is_dir() else "is a file"
        raise UsageError(f"{target}: {above}: {problem}; name another output")


def _refuse_occupied(target: Path, *, overwrite: bool | None) -> None:
    if not target.exists() or (target.is_dir() and not any(target.iterdir())):
        return
    if not overwrite:
        raise _occupied(target, overwrite)
    if not (target / MANIFEST_NAME).is_file():
        raise UsageError(
            f"{target}: not written by penstock ingest (no {MANIFEST_NAME}); refusing to "
            "overwrite it; name another output"
        )


def _occupied(target: str | os.PathLike[str], overwrite: bool | None = False) -> UsageError:
    way = "" if overwrite is None else " or pass --overwrite"
    return UsageError(f"{target} exists already; name another output{way}")


def _publish(folder: Path, target: Path, *, overwrite: bool | None) -> None:
    _refuse_occupied(target, overwrite=overwrite)
    if overwrite and target.exists():
        # A folder that is not empty cannot be renamed over; the old one steps aside first,
        # and `clear` brings it back if the new one does not come.
        target.rename(folder.with_name(folder.name + REPLACED))
    folder.rename(target)
