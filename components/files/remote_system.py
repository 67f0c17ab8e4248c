"""fsspec file systems, one per scheme and process, without the retries of the client libraries.

Credentials come from the environment variables, files and metadata servers of the provider.
"""

import os
from functools import lru_cache, partial
from typing import Any

from penstock.components.errors import UsageError
from penstock.components.files.address import scheme_of

# Time after which a request, or the reading of one block of its answer, is repeated. A block of 8
# MiB is thus repeated if it arrives at less than 140 kB/s.
DEADLINE_SECONDS = 60.0
_CONNECT_SECONDS = 10.0
_EXTRAS = {"s3": "s3", "gs": "gcs", "http": "https", "https": "https"}


def file_system(address: str) -> Any:
    """Returns the `fsspec.AbstractFileSystem` of an address; it does not cache listings."""
    scheme = str(scheme_of(address))
    try:
        # The process id is part of the cache key, since a client does not survive a fork.
        return _make(scheme, os.getpid())
    except ImportError as error:
        advice = f"pip install 'penstock-tfx[{_EXTRAS[scheme]}]'"
        raise UsageError(f"{address}: cannot read {scheme}:// ({error}); {advice}") from error


@lru_cache(maxsize=8)
def _make(scheme: str, process: int) -> Any:
    del process
    import fsspec

    options: dict[str, Any] = {"skip_instance_cache": True, "use_listings_cache": False}
    options |= _client_options(scheme)
    if scheme == "gs":
        # If gcsfs is created by its registered name, it first asks Google's gRPC server for the
        # layout of each bucket. This request needs another permission, and no emulator supports it.
        from gcsfs.core import GCSFileSystem

        system = GCSFileSystem(**options)
    else:
        system = fsspec.filesystem(scheme, **options)
    # The client's retries are off, because `retry_remote` retries, and logs each retry.
    system.retries = 1  # s3fs: number of tries of each call
    request = getattr(type(system), "_request", None)  # gcsfs tries six times, with tracebacks
    once = getattr(request, "__wrapped__", None)
    if once is not None:
        system._request = partial(once, system)
    return system


def _client_options(scheme: str) -> dict[str, Any]:
    if scheme == "s3":
        config = {
            "connect_timeout": _CONNECT_SECONDS,
            "read_timeout": DEADLINE_SECONDS,
            "retries": {"total_max_attempts": 1},
        }
        return {"config_kwargs": config}
    import aiohttp

    timeout = aiohttp.ClientTimeout(sock_connect=_CONNECT_SECONDS, sock_read=DEADLINE_SECONDS)
    if scheme == "gs":
        return {"requests_timeout": timeout}
    # `trust_env` lets the client use the environment's proxies, and logins from ~/.netrc.
    return {"client_kwargs": {"timeout": timeout, "trust_env": True}}
