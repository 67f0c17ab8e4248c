"""Reads that a disk or a mount refuses for a moment: tried again with patience, then named.

A data error is never tried again; what a server of an address refuses is in `remote_retry.py`.
"""

import errno
import io
import logging
import time
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from penstock.components.errors import TriesFailedError
from penstock.components.files.remote_retry import WAIT_SECONDS

_LOG = logging.getLogger(__name__)

# What NFS, FUSE and disks say of a server or a path that may be back in a minute.
_TRANSIENT = {
    errno.EIO, errno.ESTALE, errno.ETIMEDOUT, errno.EAGAIN, errno.ENOTCONN, errno.ECONNRESET,
    errno.ECONNREFUSED, errno.EHOSTDOWN, errno.EHOSTUNREACH,
}  # fmt: skip

T = TypeVar("T")


def is_transient(error: BaseException) -> bool:
    """Whether another try may succeed."""
    return isinstance(error, OSError) and error.errno in _TRANSIENT


def waits() -> Iterator[float]:
    """How long to wait before each further try, in seconds."""
    return iter(WAIT_SECONDS)


def wait_or_give_up(path: str, error: OSError, left: Iterator[float]) -> None:
    """Wait for the next try, as long as the waits that are left say.

    Raises:
        TriesFailedError: No try is left.
        OSError: The error itself, where no further try mends it.
    """
    if not is_transient(error):
        raise error
    wait = next(left, None)
    if wait is None:
        raise TriesFailedError(
            f"{path}: cannot be read, {len(WAIT_SECONDS) + 1} tries failed ({error.strerror}); "
            "check the disk or the mount, then start again"
        ) from error
    _LOG.warning("%s: %s; trying again in %.1f s", path, error.strerror, wait)
    time.sleep(wait)


def patiently(path: str, call: Callable[[], T]) -> T:
    """What `call` gives, after as many tries as it takes, bounded; see `wait_or_give_up`."""
    left = waits()
    while True:
        try:
            return call()
        except OSError as error:
            wait_or_give_up(path, error, left)


class PatientFile(io.FileIO):
    """A file that is opened anew, where it stood, when a read fails for a moment.

    Messages call it `shown`.
    """

    def __init__(self, path: str, shown: str) -> None:
        self._shown = shown
        self._path = path
        try:
            super().__init__(path, "rb")
        except OSError as error:
            self._again(error, 0, lambda: None)

    def readinto(self, buffer: Any, /) -> int | None:
        """Read up to the buffer's length."""
        try:
            return _readinto(self, buffer)
        except OSError as error:
            return self._again(error, self.tell(), lambda: _readinto(self, buffer))

    def readall(self) -> bytes:
        """Read to the end."""
        start = self.tell()
        try:
            return super().readall()
        except OSError as error:
            return self._again(error, start, super().readall)

    def _again(self, error: OSError, at: int, read: Callable[[], T]) -> T:
        left = waits()
        wait_or_give_up(self._shown, error, left)

        def reopened() -> T:
            super(PatientFile, self).__init__(self._path, "rb")  # closes what is stale
            self.seek(at)
            return read()

        while True:
            try:
                return reopened()
            except OSError as again:
                wait_or_give_up(self._shown, again, left)


_readinto = io.FileIO.readinto
