"""Tries of what a server may refuse for a moment: bounded, and what failed for good named."""

import logging
import re
import time
from collections.abc import Callable
from typing import TypeVar

from penstock.components.errors import DataError, PenstockError, TriesFailedError

_LOG = logging.getLogger(__name__)

# Further tries, and how long each waits: 40 s, which a restart of a server or a throttled bucket
# takes.
WAIT_SECONDS = (0.5, 2.0, 8.0, 30.0)
LOGIN_ADVICE = "leave it to the provider's own environment variables and files"
_LOGIN_WANTED = "give credentials in the provider's own environment variables or files"
_NOT_THERE = (404, 410)
PRECONDITION_FAILED = 412
_DENIED = (401, 403)
# Of the 4xx, which say that the request is wrong, those that mean "later".
_LATER = (408, 409, 425, 429)
_NO_CREDENTIALS = ("NoCredentialsError", "PartialCredentialsError", "DefaultCredentialsError")
# A redirect may lead to an address with a signature, which clients put into their messages.
_QUERY = re.compile(r"(https?://[^\s'\"?]*)\?[^\s'\")]*")
_LOGIN = re.compile(r"(https?://)[^\s'\"/@]*@")

T = TypeVar("T")


class NotThereError(DataError):
    """A server has no such thing."""


def retried(address: str, call: Callable[[], T], doing: str = "read") -> T:
    """What `call` gives, after as many tries as it takes, bounded.

    Args:
        address: What it is of.
        call: Asks the server once.
        doing: `read` or `written`, for messages.

    Raises:
        DataError: There is no such thing, or it may not be read.
        FileExistsError: What is put only where nothing stands has something standing there.
        TriesFailedError: No try succeeded.
    """
    for wait in (*WAIT_SECONDS, None):
        try:
            return call()
        except (PenstockError, FileExistsError):
            raise
        except Exception as error:  # Each client has errors of its own.
            if status_of(error) == PRECONDITION_FAILED:
                raise FileExistsError(address) from error
            final = _final(address, error, doing)
            if final:
                raise final from error
            if wait is None:
                raise TriesFailedError(
                    f"{address}: cannot be {doing}, {len(WAIT_SECONDS) + 1} tries failed "
                    f"({_text(_origin(error))})"
                ) from error
            _LOG.warning("%s: %s; trying again in %.1f s", address, _text(_origin(error)), wait)
            time.sleep(wait)
    raise AssertionError("the last try returns or raises")


def status_of(error: BaseException) -> int | None:
    """The HTTP status that a client's error stands for; None of others."""
    error = _origin(error)
    response = getattr(error, "response", None)  # botocore
    if isinstance(response, dict):
        return response.get("ResponseMetadata", {}).get("HTTPStatusCode")
    status = getattr(error, "status", None) or getattr(error, "code", None)  # aiohttp, gcsfs
    return status if isinstance(status, int) else None


def _origin(error: BaseException) -> BaseException:
    """What a client raised first: fsspec makes "not found" of all that a web server answers."""
    cause = error.__cause__
    return cause if cause is not None and isinstance(error, OSError) else error


def _final(address: str, error: Exception, doing: str) -> DataError | None:
    """What to tell of an error that another try does not mend."""
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
    """What the server says, without the name of the call that it is an answer to."""
    response = getattr(error, "response", None)
    said = response.get("Error", {}) if isinstance(response, dict) else {}
    return f"{said['Code']}: {said['Message']}" if said.keys() >= {"Code", "Message"} else None


def _text(error: BaseException) -> str:
    """One line of an error, without what may be secret."""
    text = getattr(error, "strerror", None) or _botocore_text(error) or str(error)
    line = next(iter(str(text).strip().splitlines()), "")
    if not line:
        name = type(error).__name__
        line = "no answer in time" if "Timeout" in name else name
    return _LOGIN.sub(r"\1***@", _QUERY.sub(r"\1?***", line))[:200]
