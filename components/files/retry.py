"""Retries reads and requests that fail temporarily, up to a limit; then raises one clear error.

Local reads fail with an `OSError` whose number shows whether a retry may help; each client of a
remote store has its own errors. A `DataError` is never retried.
"""

import errno
import io
import logging
import re
import time
from collections.abc import Callable
from typing import Any, TypeVar

from penstock.components.errors import DataError, PenstockError, TriesFailedError

_LOG = logging.getLogger(__name__)

# Seconds before each retry: 40 s in all, enough for the restart of a server or for a throttled
# bucket.
WAIT_SECONDS = (0.5, 2.0, 8.0, 30.0)
LOGIN_ADVICE = "leave it to the provider's own environment variables and files"
_LOGIN_WANTED = "give credentials in the provider's own environment variables or files"
# NFS, FUSE and disks report these error numbers for faults that may pass within a minute.
_TRANSIENT = {
    errno.EIO, errno.ESTALE, errno.ETIMEDOUT, errno.EAGAIN, errno.ENOTCONN, errno.ECONNRESET,
    errno.ECONNREFUSED, errno.EHOSTDOWN, errno.EHOSTUNREACH,
}  # fmt: skip
_NOT_THERE = (404, 410)
PRECONDITION_FAILED = 412
_DENIED = (401, 403)
# A 4xx status means that the request is wrong, but these statuses ask for a later try.
_LATER = (408, 409, 425, 429)
_NO_CREDENTIALS = ("NoCredentialsError", "PartialCredentialsError", "DefaultCredentialsError")
# Clients put addresses into their error messages, and the address of a redirect may have a
# signature in its query.
_QUERY = re.compile(r"(https?://[^\s'\"?]*)\?[^\s'\")]*")
_LOGIN = re.compile(r"(https?://)[^\s'\"/@]*@")

T = TypeVar("T")


class NotThereError(DataError):
    """The server has no file or folder of that name."""


def retry_local(path: str, call: Callable[[], T]) -> T:
    """Returns the result of a local read; retries transient errors after each of `WAIT_SECONDS`."""
    for wait in (*WAIT_SECONDS, None):
        try:
            return call()
        except OSError as error:
            if error.errno not in _TRANSIENT:
                raise
            if wait is None:
                raise TriesFailedError(
                    f"{path}: cannot be read, {len(WAIT_SECONDS) + 1} tries failed "
                    f"({error.strerror}); check the disk or the mount, then start again"
                ) from error
            _log_retry(path, str(error.strerror), wait)
    raise AssertionError("the last try returns or raises")


class RetryingFile(io.FileIO):
    """A local file that is reopened at its position when a read fails with a transient error."""

    def __init__(self, path: str, shown: str) -> None:
        self._path, self._shown = path, shown
        retry_local(shown, self._open)

    def readinto(self, buffer: Any, /) -> int | None:
        return self._retried(lambda: _readinto(self, buffer))

    def readall(self) -> bytes:
        return self._retried(super().readall)

    def _open(self) -> None:
        super().__init__(self._path, "rb")  # this also closes the stale file

    def _retried(self, read: Callable[[], T]) -> T:
        at, has_failed = self.tell(), False

        def again() -> T:
            nonlocal has_failed
            if has_failed:
                self._open()
                self.seek(at)
            has_failed = True
            return read()

        return retry_local(self._shown, again)


_readinto = io.FileIO.readinto


def retry_remote(address: str, call: Callable[[], T], doing: str = "read") -> T:
    """Returns the result of a request to a server; retries after each of `WAIT_SECONDS`.

    Raises DataError if all tries fail, or if a retry cannot succeed (no such file, access denied);
    FileExistsError if a put that must create a new object finds an existing one.
    """
    for wait in (*WAIT_SECONDS, None):
        try:
            return call()
        except (PenstockError, FileExistsError):
            raise
        except Exception as error:  # each client has its own errors
            if status_of(error) == PRECONDITION_FAILED:
                raise FileExistsError(address) from error
            final = _final_error(address, error, doing)
            if final:
                raise final from error
            if wait is None:
                raise TriesFailedError(
                    f"{address}: cannot be {doing}, {len(WAIT_SECONDS) + 1} tries failed "
                    f"({_text(_origin(error))})"
                ) from error
            _log_retry(address, _text(_origin(error)), wait)
    raise AssertionError("the last try returns or raises")


def status_of(error: BaseException) -> int | None:
    error = _origin(error)
    response = getattr(error, "response", None)  # botocore
    if isinstance(response, dict):
        return response.get("ResponseMetadata", {}).get("HTTPStatusCode")
    status = getattr(error, "status", None) or getattr(error, "code", None)  # aiohttp, gcsfs
    return status if isinstance(status, int) else None


def _log_retry(place: str, reason: str, wait: float) -> None:
    _LOG.warning("%s: %s; trying again in %.1f s", place, reason, wait)
    time.sleep(wait)


def _origin(error: BaseException) -> BaseException:
    """Returns the client's own error, for which fsspec may have raised another ("not found")."""
    cause = error.__cause__
    return cause if cause is not None and isinstance(error, OSError) else error


def _final_error(address: str, error: Exception, doing: str) -> DataError | None:
    """Returns the error to raise if a retry cannot succeed, otherwise None."""
    status, origin = status_of(error), _origin(error)
    text = _text(origin)
    if status in _NOT_THERE or isinstance(origin, FileNotFoundError):
        detail = f" ({text})" if "bucket" in text.lower() and not address.endswith(text) else ""
        return NotThereError(f"{address}: no such file or folder{detail}")
    is_denied = isinstance(error, PermissionError) or text.startswith("Forbidden")
    if status in _DENIED or is_denied:
        return DataError(f"{address}: permission denied ({text}); {_LOGIN_WANTED}")
    if type(origin).__name__ in _NO_CREDENTIALS:
        return DataError(f"{address}: {text}; {_LOGIN_WANTED}")
    is_wrong = status is not None and 400 <= status < 500 and status not in _LATER
    if is_wrong or isinstance(error, (ValueError, TypeError, NotImplementedError)):
        return DataError(f"{address}: cannot be {doing} ({text})")
    return None


def _botocore_text(error: BaseException) -> str | None:
    response = getattr(error, "response", None)
    said = response.get("Error", {}) if isinstance(response, dict) else {}
    return f"{said['Code']}: {said['Message']}" if said.keys() >= {"Code", "Message"} else None


def _text(error: BaseException) -> str:
    """Formats an error as one line with credentials redacted."""
    text = getattr(error, "strerror", None) or _botocore_text(error) or str(error)
    line = next(iter(str(text).strip().splitlines()), "")
    if not line:
        name = type(error).__name__
        line = "no answer in time" if "Timeout" in name else name
    return _LOGIN.sub(r"\1***@", _QUERY.sub(r"\1?***", line))[:200]
