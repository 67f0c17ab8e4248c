"""Copies of remote files on the local disk, which a process shares with its local workers.

Readers that need a path open a copy: seeking is free, and the bytes that are parsed are the bytes
that were scanned, even if the original changes in between. Files of stores are copied in blocks;
files of web servers are copied in one stream, which starts again at each try.
"""

import atexit
import hashlib
import logging
import os
import shutil
import tempfile
import threading
import uuid
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

from penstock.components.errors import DataError
from penstock.components.files.address import scheme_of
from penstock.components.files.commit import remove_abandoned
from penstock.components.files.remote import (
    RemoteFile,
    find_below,
    has_glob,
    is_remote,
    normal_address,
    remote_file,
    require_unchanged,
)
from penstock.components.files.remote_range import BLOCK_BYTES, read_part
from penstock.components.files.remote_system import file_system
from penstock.components.files.retry import retry_remote
from penstock.components.tfrecord.recovery import LOCK, attempt_folder, clear, locked
from penstock.components.tfrecord.sharding import MIB

_LOG = logging.getLogger(__name__)

# Environment variable with the folder of the copies. The first process that needs the folder
# creates it and sets the variable, which that process's workers on the same machine inherit.
_VARIABLE = "PENSTOCK_SPOOL"
_ONE_AT_A_TIME = threading.Lock()
_STREAM_BYTES = MIB
_FILES_AT_A_TIME = 8  # each connection takes a block of memory


def local_path(path: str) -> str:
    """Returns the path of a local file, or of the local copy of a remote file."""
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
    """Returns a local path unchanged, or for an address the path of a copy of all files below it.

    The copy is removed when the process that created the folder of all copies ends. Globs are
    returned unchanged.
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
    # Each request to a store takes long, so several files are copied at a time.
    with ThreadPoolExecutor(_FILES_AT_A_TIME) as pool:
        for file, copy in zip(files, pool.map(local_path, files), strict=True):
            place = folder / file[len(address) + 1 :]
            place.parent.mkdir(parents=True, exist_ok=True)
            with suppress(FileExistsError):
                os.link(copy, place)
    return str(folder)


def remove_copies() -> None:
    """Removes all copies; a file that is read again later is copied again."""
    given = os.environ.get(_VARIABLE)
    for copy in Path(given).iterdir() if given and Path(given).is_dir() else ():
        if copy.is_dir():
            shutil.rmtree(copy, ignore_errors=True)
        else:
            copy.unlink(missing_ok=True)


def _copy(file: RemoteFile, copy: Path) -> None:
    folder, size = copy.parent, file.size or 0
    free = shutil.disk_usage(folder).free
    if size > free:
        raise DataError(
            f"{file}: {size} bytes do not fit into the {free} that are free in {folder}; "
            "point TMPDIR at a larger disk, or mount the bucket"
        )
    # Several workers may copy the same file, each under a name of its own. The copy that is
    # finished last replaces the others.
    new = copy.with_name(uuid.uuid4().hex)
    try:
        out = new.open("wb", buffering=0)
    except OSError as error:
        raise _cannot_copy(file, str(folder), error) from error
    try:
        with out:
            if scheme_of(file) in ("http", "https"):
                retry_remote(file, partial(_receive, file, out))
            else:
                for start in range(0, size, BLOCK_BYTES):
                    _write(file, out, read_part(file, start, min(start + BLOCK_BYTES, size)))
            require_unchanged(file)
        new.rename(copy)
    except BaseException:
        new.unlink(missing_ok=True)
        raise


def _receive(file: RemoteFile, out: BinaryIO) -> None:
    from fsspec.asyn import sync

    system = file_system(file)
    sync(system.loop, _stream, system, file, out)
    size = out.tell()
    if file.size is not None and size != file.size:
        require_unchanged(file)
        raise OSError(f"{size} bytes came where {file.size} were promised")


async def _stream(system: Any, file: RemoteFile, out: BinaryIO) -> None:
    out.seek(0)
    out.truncate()
    session = await system.set_session()
    url, headers = system.encode_url(str(file)), {"Accept-Encoding": "identity"}
    async with session.get(url, headers=headers) as answer:
        answer.raise_for_status()
        is_chunked = "chunked" in answer.headers.get("Transfer-Encoding", "").lower()
        if file.size is None and not is_chunked and answer.content_length is None:
            raise DataError(
                f"{file}: the server tells neither a length nor the end, so that nothing tells "
                "whether a copy is whole; copy it by hand"
            )
        async for block in answer.content.iter_chunked(_STREAM_BYTES):
            _write(file, out, block)


def _write(file: RemoteFile, out: BinaryIO, data: bytes) -> None:
    try:
        rest = memoryview(data)
        while rest:  # an unbuffered file may write only a part
            rest = rest[out.write(rest) :]
    except OSError as error:
        raise _cannot_copy(file, os.path.dirname(out.name), error) from error


def _cannot_copy(file: RemoteFile, folder: str, error: OSError) -> DataError:
    return DataError(
        f"{file}: cannot be copied to {folder} ({error.strerror}); point TMPDIR at another disk"
    )


def _spool() -> Path:
    """Returns the folder of the copies; the process that creates it removes it."""
    with _ONE_AT_A_TIME:
        given = os.environ.get(_VARIABLE)
        if given and Path(given).is_dir():
            return Path(given)
        remove_abandoned(Path(tempfile.gettempdir()))
        folder = attempt_folder(Path(tempfile.gettempdir(), "penstock-spool"))
        lock = locked(folder.with_name(folder.name + LOCK))
        folder.mkdir(mode=0o700)
        os.environ[_VARIABLE] = str(folder)
        atexit.register(_remove, folder, os.getpid(), lock)
        return folder


def _remove(folder: Path, owner: int, lock: object) -> None:
    del lock  # the lock was held until now
    if os.getpid() == owner:
        clear(folder, folder)
