"""Checks a Kubeflow Pipelines server and a namespace before the first run.

Input: the server's address, a namespace, an account, a placement. Output: one finding per check.
Reaches the server over HTTP, and the Kubernetes API with the caller's kubeconfig or else the pod's
account; changes nothing.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal, TypeAlias

from kubernetes import client, config
from urllib3.exceptions import HTTPError

from penstock.components.errors import PenstockError, one_line
from penstock.pipelines.kubeflow.placement import Placement
from penstock.pipelines.kubeflow.server import connect, health, load_cluster_config, server_errors

# Oldest and newest KFP release whose protos the tests use to parse compiled files.
_OLDEST, _NEWEST = (2, 5), (2, 17)
_TIMEOUT_SECONDS = 10

Result: TypeAlias = tuple[Literal["ok", "warning", "fault", "unseen"], str]
"""State and sentence of a check; the sentence of a fault names the remedy."""


def examine(
    host: str, namespace: str | None, account: str | None, placement: Placement
) -> Iterator[tuple[str, Result]]:
    """Yields subject and result of all checks, starting with those of the server."""
    several = False
    try:
        answer = health(host)
        several = bool(answer.get("multi_user"))
        yield "server", _version(str(answer.get("tag_name") or ""), several)
        server = connect(host, namespace)
        with server_errors(host):
            server.list_runs(page_size=1, namespace=namespace)
        yield "login", ("ok", f"it may list runs{f' of {namespace}' if namespace else ''}")
    except PenstockError as error:
        yield "server", ("fault", str(error))
    try:
        load_cluster_config()
        client.VersionApi().get_code(_request_timeout=_TIMEOUT_SECONDS)
    except (config.ConfigException, client.ApiException, HTTPError) as error:
        why = f"{type(error).__name__}: {one_line(error)}"
        yield "cluster", ("unseen", f"no Kubernetes API to ask ({why})")
        return
    account = account or ("default-editor" if several else "pipeline-runner")
    yield from _objects(namespace or "kubeflow", account, placement)


def _version(tag: str, several: bool) -> Result:
    text = f"Kubeflow Pipelines {tag or 'of an unknown version'}, "
    text += "several users" if several else "one user"
    found = re.match(r"v?(\d+)\.(\d+)", tag)
    version = tuple(map(int, found.groups())) if found else ()
    tested = f"{text}; compiled files are tested for 2.{_OLDEST[1]} to 2.{_NEWEST[1]}"
    if version and version < _OLDEST:
        return "fault", f"{tested}: upgrade the server"
    return ("ok", text) if version and version <= _NEWEST else ("warning", tested)


def _objects(space: str, account: str, placement: Placement) -> Iterator[tuple[str, Result]]:
    core = client.CoreV1Api()
    apply = "apply an overlay of k8s/"
    remedy = f"{apply}, or name another with --service-account"
    yield "account", _look(core.read_namespaced_service_account, account, space, remedy)
    if placement.volume:
        read = core.read_namespaced_persistent_volume_claim
        yield "claim", _look(read, placement.volume.claim, space, apply)
    for name, keys in _secrets(placement).items():
        literals = "".join(f" --from-literal={key}=..." for key in keys)
        remedy = f"kubectl -n {space} create secret generic {name}{literals}"
        yield "secret", _look(core.read_namespaced_secret, name, space, remedy, keys)


def _secrets(placement: Placement) -> dict[str, Sequence[str]]:
    wanted: dict[str, Sequence[str]] = dict.fromkeys(placement.image_pull_secrets, ())
    wanted |= {name: [*keys] for name, keys in placement.secret_env.items()}
    if placement.metadata_mysql:
        login = placement.mysql_secret
        wanted[login.name] = [login.user_key, login.password_key]
        if login.tls_name:
            wanted[login.tls_name] = ["ca.crt"]
    if placement.notify:
        wanted[placement.notify.webhook_secret] = [placement.notify.webhook_key]
    return wanted


def _look(
    read: Callable[..., Any], name: str, space: str, remedy: str, keys: Sequence[str] = ()
) -> Result:
    try:
        found = read(name, space, _request_timeout=_TIMEOUT_SECONDS)
    except client.ApiException as error:
        if error.status == 404:
            return "fault", f"no {name} in {space}: {remedy}"
        return "unseen", f"{name}: Kubernetes answers {error.status} {error.reason}"
    except HTTPError as error:
        return "unseen", f"{name}: {one_line(error)}"
    if lacking := [key for key in keys if key not in (found.data or {})]:
        return "fault", f"{name} lacks {', '.join(lacking)}: {remedy}"
    return "ok", f"{name} in {space}"
