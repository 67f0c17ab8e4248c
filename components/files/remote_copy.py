"""A remote file's content onto the local disk: in blocks, or of a web server in one stream."""

import os
from functools import partial
from typing import Any, BinaryIO

from penstock.components.errors import DataError
from penstock.components.files.address import scheme_of
from penstock.components.files.remote import RemoteFile, require_unchanged
from penstock.components.files.remote_range import BLOCK_BYTES, read_part
from penstock.components.files.remote_retry import retried
from penstock.components.files.remote_system import file_system
from penstock.components.tfrecord.sharding import MIB

_STREAM_BYTES = MIB
_RANGE_NOT_SATISFIABLE = 416


def copy_to(file: RemoteFile, out: BinaryIO) -> None:
    """Copy a file's content, in the state in which it was listed, to one that is not buffered.

    Raises:
        DataError: It cannot be read or written, or is in another state by now.
    """
    if scheme_of(file) in ("http", "https"):
        retried(file, partial(_receive, file, out))
    else:
        size = file.size or 0
        for start in range(0, size, BLOCK_BYTES):
            _write(file, out, read_part(file, start, min(start + BLOCK_BYTES, size)))
    require_unchanged(file)


def _receive(file: RemoteFile, out: BinaryIO) -> None:
    """Receive from a web server what is still missing in `out`."""
    from fsspec.asyn import sync

    system = file_system(file)
    sync(system.loop, _stream, system, file, out)
    size = out.tell()
    if file.size is not None and size != file.size:
        out.seek(0)
        require_unchanged(file)
        raise OSError(f"{size} bytes came where {file.size} were promised")


async def _stream(system: Any, file: RemoteFile, out: BinaryIO) -> None:
    """One request: from where the last one broke off, if the server can and the state is known."""
    start = out.tell() if file.version else 0
    headers = {"Accept-Encoding": "identity"}
    if start:
        # A server that has another state by now, or gives no parts, sends all.
        headers |= {"Range": f"bytes={start}-", "If-Range": str(file.version)}
    session = await system.set_session()
    async with session.get(system.encode_url(str(file)), headers=headers) as answer:
        if answer.status == _RANGE_NOT_SATISFIABLE:
            out.seek(0)
            raise OSError("the server cannot resume the download")
        answer.raise_for_status()
        if file.size is None and not _tells_its_end(answer):
            raise DataError(
                f"{file}: the server tells neither a length nor the end, so that nothing tells "
                "whether a copy is whole; copy it by hand"
            )
        out.seek(start if answer.status == 206 else 0)
        out.truncate()
        async for block in answer.content.iter_chunked(_STREAM_BYTES):
            _write(file, out, block)


def _tells_its_end(answer: Any) -> bool:
    """Whether an answer that breaks off can be told from a whole one."""
    is_chunked = "chunked" in answer.headers.get("Transfer-Encoding", "").lower()
    return is_chunked or answer.content_length is not None


def _write(file: RemoteFile, out: BinaryIO, data: bytes) -> None:
    try:
        rest = memoryview(data)
        while rest:  # what is not buffered may be written in parts
            rest = rest[out.write(rest) :]
    except OSError as error:
        raise cannot_copy(file, os.path.dirname(out.name), error) from error


def cannot_copy(file: RemoteFile, folder: str, error: OSError) -> DataError:
    """What to tell when the local disk fails."""
    return DataError(
        f"{file}: cannot be copied to {folder} ({error.strerror}); point TMPDIR at another disk"
    )
