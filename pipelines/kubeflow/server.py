"""A Kubeflow Pipelines server: found, asked, and its refusals told in one line.

kfp's own client waits 25 seconds for a server that is not there, and then prints a traceback;
so the server is asked for its health first, by one plain request.
"""

import io
import json
import os
import urllib.error
import urllib.request
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from typing import Any

import kfp
from kfp_server_api import ApiException
from urllib3.exceptions import HTTPError

from penstock.components.errors import DataError, UsageError

TOKEN = "PENSTOCK_KFP_TOKEN"
_HEALTH = "/apis/v2beta1/healthz"
_TIMEOUT_SECONDS = 10
_REFUSED = (401, 403)


def connect(host: str, namespace: str | None) -> kfp.Client:
    """A client of a server that is known to answer.

    Args:
        host: Its address, `http://` or `https://`; a bearer token is taken from the
            environment, `PENSTOCK_KFP_TOKEN`.
        namespace: The user's namespace, where a server has several users.

    Raises:
        UsageError: Not an address, or the server needs a namespace.
        DataError: There is no server, it refuses, or it is of another version.
    """
    if not host.startswith(("http://", "https://")):
        raise UsageError(f"--host must start with http:// or https://, got {host!r}")
    host = host.rstrip("/")
    if _health(host).get("multi_user") and not namespace:
        raise UsageError(f"{host} has several users; say whose with --namespace")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that it works with version 2 only, at every start
        # `kubeflow` is the client's own word for none.
        return kfp.Client(
            host=host, namespace=namespace or "kubeflow", existing_token=os.environ.get(TOKEN)
        )


@contextmanager
def server_errors(host: str) -> Iterator[None]:
    """What a server answers, or that it does not, as one clear line; kfp's own lines are hushed."""
    try:
        with redirect_stdout(io.StringIO()):
            yield
    except ApiException as error:
        if error.status in _REFUSED:
            raise _refused(host, error.status) from error
        raise DataError(f"{host} answers {error.status}: {_message(error.body)}") from error
    except HTTPError as error:
        raise DataError(f"{host} does not answer any more ({type(error).__name__})") from error


def _health(host: str) -> dict[str, Any]:
    """What the server says of itself."""
    request = urllib.request.Request(f"{host}{_HEALTH}")
    if token := os.environ.get(TOKEN):
        request.add_header("Authorization", f"Bearer {token}")
    try:
        with urllib.request.urlopen(request, timeout=_TIMEOUT_SECONDS) as response:
            answer = json.loads(response.read())
    except urllib.error.HTTPError as error:
        with error:
            if error.code in _REFUSED:
                raise _refused(host, error.code) from error
            if error.code == 404:
                raise _wrong_version(host) from error
            raise DataError(f"{host} answers {error.code} {error.reason}") from error
    except ValueError as error:
        raise DataError(
            f"{host} answers with something other than JSON, perhaps a login page; "
            f"put a token into {TOKEN}, or give the address of the API itself"
        ) from error
    except OSError as error:
        reason = getattr(error, "reason", error)
        raise DataError(
            f"no Kubeflow Pipelines server at {host} ({reason}); is the address right, "
            "or a port-forward missing?"
        ) from error
    if not isinstance(answer, dict):
        raise _wrong_version(host)
    return answer


def _refused(host: str, status: int) -> DataError:
    state = "is not accepted" if os.environ.get(TOKEN) else "is not set"
    return DataError(f"{host} refuses the login ({status}); the token in {TOKEN} {state}")


def _wrong_version(host: str) -> DataError:
    return DataError(f"{host} has no {_HEALTH}: not Kubeflow Pipelines, or older than version 2.0")


def _message(body: Any) -> str:
    try:
        text = str(json.loads(body)["message"])
    except (ValueError, KeyError, TypeError):
        text = str(body)
    return " ".join(text.split())[:500]
