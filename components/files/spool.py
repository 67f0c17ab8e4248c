"""Copies of remote files on the local disk, one a machine, removed when the work is done.

All kinds of source read such a copy: seeking costs nothing, Arrow opens it itself, and what is
parsed is what was scanned, whatever happens to the original meanwhile.
"""

import atexit
import fcntl
import hashlib
import logging
import os
import shutil
import tempfile
import threading
from contextlib import suppress
from pathlib import Path

from penstock.components.errors import DataError
from penstock.components.files.remote import (
    RemoteFile,
    find_below,
    has_glob,
    is_remote,
    normal_address,
    remote_file,
)
from penstock.components.files.remote_copy import cannot_copy, copy_to
from penstock.components.tfrecord.recovery import locked

_LOG = logging.getLogger(__name__)

# Where the process that plans puts copies; its workers on the same machine look there.
_VARIABLE = "PENSTOCK_SPOOL"
_PREFIX = "penstock-spool-"
_LOCK = "lock"
_ONE_AT_A_TIME = threading.Lock()


def local_path(path: str) -> str:
    """The path of a file, or of the local copy of a remote one, listed or not.

    Raises:
        DataError: It cannot be copied, or there is no room for it.
        UsageError: It is an address that no files are read from.
    """
    if not isinstance(path, RemoteFile):
        if not is_remote(path):
            return path
        path = remote_file(path)
    folder = _spool()
    identity = f"{path}\0{path.size}\0{path.version}"
    copy = folder / hashlib.sha256(identity.encode("utf-8", "surrogateescape")).hexdigest()
    if not copy.exists():
        _copy(path, copy)
    return str(copy)


def local_folder(path: str) -> str:
    """A path itself, or a copy of all that is below an address, gone when this process ends.

    For readers of whole outputs; of a file its copy. Globs stay as they are.

    Raises:
        DataError: There is nothing, or it cannot be copied.
        UsageError: It is an address that no files are read from.
    """
    if not is_remote(path) or has_glob(path):
        return path
    address = normal_address(path).rstrip("/")
    files = find_below(address)
    if not files:
        raise DataError(f"{path}: no such file or folder")
    if files == [address]:
        return local_path(files[0])
    state = "\0".join(f"{file}\0{file.size}\0{file.version}" for file in files)
    folder = _spool() / hashlib.sha256(state.encode("utf-8", "surrogateescape")).hexdigest()
    folder /= os.path.basename(address)
    _LOG.warning("%s: read from a copy, %s", path, folder)
    for file in files:
        place = folder / file[len(address) + 1 :]
        place.parent.mkdir(parents=True, exist_ok=True)
        with suppress(FileExistsError):
            os.link(local_path(file), place)
    return str(folder)


def remove_copies() -> None:
    """Remove this machine's copies, once no more is read; what is read after all is copied anew."""
    given = os.environ.get(_VARIABLE)
    for copy in Path(given).iterdir() if given and Path(given).is_dir() else ():
        if copy.is_dir():
            shutil.rmtree(copy, ignore_errors=True)
        elif copy.name != _LOCK:
            copy.unlink(missing_ok=True)


def _copy(file: RemoteFile, copy: Path) -> None:
    folder = copy.parent
    free = shutil.disk_usage(folder).free
    if file.size is not None and file.size > free:
        raise DataError(
            f"{file}: {file.size} bytes do not fit into the {free} that are free in {folder}; "
            "point TMPDIR at a larger disk, or mount the bucket"
        )
    # Several workers may copy the same file: each under a name of its own, and the last wins.
    try:
        handle, name = tempfile.mkstemp(dir=folder)
    except OSError as error:
        raise cannot_copy(file, str(folder), error) from error
    os.close(handle)
    try:
        with open(name, "wb", buffering=0) as out:
            copy_to(file, out)
        os.rename(name, copy)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def _spool() -> Path:
    """The folder of this machine's copies; removed by the process that made it."""
    with _ONE_AT_A_TIME:
        given = os.environ.get(_VARIABLE)
        if given and Path(given).is_dir():
            return Path(given)
        _remove_abandoned(Path(tempfile.gettempdir()))
        lock = None
        while lock is None:
            folder = Path(tempfile.mkdtemp(prefix=_PREFIX))
            with suppress(FileNotFoundError):  # another took it for abandoned: once more
                lock = locked(folder / _LOCK)
        os.environ[_VARIABLE] = str(folder)
        atexit.register(_remove, folder, os.getpid(), lock)
        return folder


def _remove(folder: Path, owner: int, lock: object) -> None:
    del lock
    if os.getpid() == owner:
        shutil.rmtree(folder, ignore_errors=True)


def _remove_abandoned(parent: Path) -> None:
    """Remove folders whose process was killed."""
    for lock in parent.glob(f"{_PREFIX}*/{_LOCK}"):
        try:
            with lock.open("r+") as held:
                fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(lock.parent, ignore_errors=True)
        except OSError:
            continue  # At work, gone meanwhile, or another user's.
