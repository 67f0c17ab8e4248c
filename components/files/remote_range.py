"""Reads parts of a remote file, in the version that was listed, and presents them as a file."""

import io
from functools import partial
from typing import Any

from penstock.components.files import remote_system
from penstock.components.files.address import scheme_of
from penstock.components.files.remote import RemoteFile, require_unchanged
from penstock.components.files.remote_system import file_system
from penstock.components.files.retry import PRECONDITION_FAILED, retry_remote, status_of
from penstock.components.tfrecord.sharding import MIB

# Maximum number of bytes per request. Each request costs a round trip, and is repeated as a whole
# if it fails.
BLOCK_BYTES = 8 * MIB
# Number of bytes to read ahead, because the small columns of a Parquet file are stored next to each
# other.
_AHEAD_BYTES = MIB
# HTTP statuses for a file that has changed or become shorter.
_CHANGED = (PRECONDITION_FAILED, 416)


class _OtherVersionError(OSError):
    """A store served another version than requested; some stores ignore a request's condition."""


def open_parts(file: RemoteFile) -> io.BufferedReader:
    """Opens a file of a store that can serve parts of one version (`RemoteFile.sure_version`)."""
    return io.BufferedReader(_Parts(file), min(_AHEAD_BYTES, max(1, file.size or 0)))


def read_part(file: RemoteFile, start: int, end: int) -> bytes:
    return retry_remote(file, partial(_read_once, file, start, end))


class _Parts(io.RawIOBase):
    def __init__(self, file: RemoteFile) -> None:
        self._file = file
        self._size = file.size or 0
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        self._at = offset + (0, self._at, self._size)[whence]
        return self._at

    def readinto(self, buffer: Any, /) -> int:
        size = max(0, min(len(buffer), BLOCK_BYTES, self._size - self._at))
        if size:
            buffer[:size] = read_part(self._file, self._at, self._at + size)
        self._at += size
        return size

    def readall(self) -> bytes:
        return b"".join(iter(partial(self.read, BLOCK_BYTES), b""))


def _read_once(file: RemoteFile, start: int, end: int) -> bytes:
    try:
        data = _get(file, start, end)
    except Exception as error:
        if status_of(error) in _CHANGED or isinstance(error, _OtherVersionError):
            require_unchanged(file)
            raise OSError(
                "the server reported a change, but size and version are unchanged"
            ) from error
        raise
    if len(data) != end - start:
        require_unchanged(file)
        raise OSError(f"{len(data)} bytes came where {end - start} were asked for")
    return data


def _get(file: RemoteFile, start: int, end: int) -> bytes:
    from fsspec.asyn import sync

    system = file_system(file)
    get = _get_s3 if scheme_of(file) == "s3" else _get_gs
    part = f"bytes={start}-{end - 1}"
    return bytes(sync(system.loop, get, system, file, part, timeout=remote_system.DEADLINE_SECONDS))


async def _get_s3(system: Any, file: RemoteFile, part: str) -> bytes:
    bucket, key, _ = system.split_path(str(file))
    # The method of s3fs that reads a part does not accept the condition `IfMatch`.
    answer = await system._call_s3(
        "get_object", Bucket=bucket, Key=key, Range=part, IfMatch=file.version, **system.req_kw
    )
    _check_version(file, answer.get("ETag"))
    async with answer["Body"] as body:
        data: bytes = await body.read()
    return data


async def _get_gs(system: Any, file: RemoteFile, part: str) -> bytes:
    url, headers = system.url(str(file)), {"Range": part}
    data: bytes
    answer, data = await system._call("GET", url, headers=headers, ifGenerationMatch=file.version)
    _check_version(file, answer.get("x-goog-generation"))
    return data


def _check_version(file: RemoteFile, served: str | None) -> None:
    """Raises an error if the answer states another version; not every store states one."""
    if served is not None and served.strip('"') != str(file.version).strip('"'):
        raise _OtherVersionError(f"version {served} came where {file.version} was asked for")
