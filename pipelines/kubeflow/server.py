"""Client of a Kubeflow Pipelines server; each error of the server becomes one line.

kfp's own client waits 25 seconds for a server that does not answer, and then prints a traceback; so
Penstock first sends one plain request for the server's health.
"""

import io
import json
import os
import urllib.error
import urllib.request
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import Any

import kfp
from kfp.client.token_credentials_base import TokenCredentialsBase
from kfp_server_api import ApiException
from kubernetes import config
from urllib3.exceptions import HTTPError

from penstock.components.errors import DataError, UsageError

TOKEN, TOKEN_FILE = "PENSTOCK_KFP_TOKEN", "PENSTOCK_KFP_TOKEN_FILE"
# KFP's environment variable for the path of the token that Kubernetes mounts into a pod and renews.
_MOUNTED_TOKEN = "KF_PIPELINES_SA_TOKEN_PATH"
_AUDIENCE = "pipelines.kubeflow.org"
_HEALTH = "/apis/v2beta1/healthz"
_TIMEOUT_SECONDS = 10
_REFUSED = (401, 403)


class _RenewedToken(TokenCredentialsBase):
    """Reads the token again for each request, because a token in a file may be renewed."""

    def refresh_api_key_hook(self, config: Any) -> None:
        config.api_key["authorization"] = read_token()

    def get_token(self) -> str | None:
        return read_token()


def connect(host: str, namespace: str | None) -> kfp.Client:
    """Checks that the server answers, and returns a client that logs in with `read_token`."""
    host = host.rstrip("/")
    if health(host).get("multi_user") and not namespace:
        raise UsageError(f"{host} has several users; name yours with --namespace")
    credentials = _RenewedToken() if read_token() else None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # kfp warns at every start that it needs a v2 server
        # To kfp's client, the namespace `kubeflow` means that no namespace was given.
        return kfp.Client(host=host, namespace=namespace or "kubeflow", credentials=credentials)


def read_token() -> str | None:
    """Returns the bearer token; None if no environment variable has one.

    `TOKEN` contains the token; `TOKEN_FILE` and KFP's variable contain the path of its file.
    """
    if token := os.environ.get(TOKEN):
        return token
    path = os.environ.get(TOKEN_FILE) or os.environ.get(_MOUNTED_TOKEN)
    if not path:
        return None
    try:
        return Path(path).read_text(encoding="utf-8").strip()
    except OSError as error:
        raise DataError(f"{path}: cannot read the token ({error.strerror})") from error


@contextmanager
def server_errors(host: str) -> Iterator[None]:
    """Turns errors of requests into one-line DataErrors, and suppresses kfp's own prints."""
    try:
        with redirect_stdout(io.StringIO()):
            yield
    except ApiException as error:
        if error.status in _REFUSED:
            raise _refused(host, error.status) from error
        raise DataError(f"{host} answers {error.status}: {_message(error.body)}") from error
    except HTTPError as error:
        raise DataError(f"{host} does not answer any more ({type(error).__name__})") from error


def health(host: str) -> dict[str, Any]:
    """Returns the answer of the server's health API, which contains `multi_user` and `tag_name`."""
    if not host.startswith(("http://", "https://")):
        raise UsageError(f"--host must start with http:// or https://, got {host!r}")
    host = host.rstrip("/")
    request = urllib.request.Request(f"{host}{_HEALTH}")
    if token := read_token():
        request.add_header("Authorization", f"Bearer {token}")
    try:
        with urllib.request.urlopen(request, timeout=_TIMEOUT_SECONDS) as response:
            return dict(json.loads(response.read()))
    except urllib.error.HTTPError as error:
        with error:
            if error.code in _REFUSED:
                raise _refused(host, error.code) from error
            raise DataError(
                f"{host}{_HEALTH} answers {error.code} {error.reason}: not Kubeflow Pipelines, or "
                "older than version 2.0"
            ) from error
    except (TypeError, ValueError) as error:
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


def load_cluster_config() -> None:
    """Loads the caller's kubeconfig, or else the pod's service account.

    Raises ConfigException if there is neither.
    """
    try:
        config.load_kube_config()
    except config.ConfigException:
        config.load_incluster_config()


def _refused(host: str, status: int) -> DataError:
    return DataError(
        f"{host} refuses the login ({status}): set {TOKEN} or {TOKEN_FILE} to a token that has not "
        f"expired, of an account with rights in the namespace; "
        f"kubectl create token ACCOUNT --audience {_AUDIENCE} makes one"
    )


def _message(body: Any) -> str:
    try:
        text = str(json.loads(body)["message"])
    except (ValueError, KeyError, TypeError):
        text = str(body)
    return " ".join(text.split())[:500]
