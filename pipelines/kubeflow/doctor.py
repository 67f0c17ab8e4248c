"""Checks of a Kubeflow Pipelines server and of a namespace, before the first run.

In: the server's address, a namespace, an account, a placement. Out: one finding per check. Reaches
the server over HTTP, and the Kubernetes API with the caller's kubeconfig; changes nothing.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal, NamedTuple

from kubernetes import client, config
from urllib3.exceptions import HTTPError

from penstock.components.errors import PenstockError, one_line
from penstock.pipelines.kubeflow.placement import Placement
from penstock.pipelines.kubeflow.server import connect, health, server_errors

# KFP releases whose protos the tests use to parse compiled files.
_OLDEST, _NEWEST = (2, 5), (2, 17)
_TIMEOUT_SECONDS = 10


class Result(NamedTuple):
    """State and sentence of a check; the sentence of a fault names the remedy."""

    state: Literal["ok", "warning", "fault", "unseen"]
    text: str


def examine(
    host: str, namespace: str | None, account: str | None, placement: Placement
) -> Iterator[tuple[str, Result]]:
    """Yields subject and result of all checks, the checks of the server first."""
    several = False
    try:
        answer = health(host)
        several = bool(answer.get("multi_user"))
        yield "server", _version(str(answer.get("tag_name") or ""), several)
        yield "login", _login(host, namespace)
    except PenstockError as error:
        yield "server", Result("fault", str(error))
    space = namespace or "kubeflow"
    account = account or ("default-editor" if several else "pipeline-runner")
    try:
        core = _kubernetes()
    except (config.ConfigException, client.ApiException, HTTPError) as error:
        why = f"{type(error).__name__}: {one_line(error)}"
        yield "cluster", Result("unseen", f"no Kubernetes API to ask ({why})")
        return
    yield "account", _account(core, space, account)
    if placement.volume:
        yield "claim", _claim(core, space, placement.volume.claim)
    for name, keys in _secrets(placement).items():
        yield "secret", _secret(core, space, name, keys)


def _kubernetes() -> client.CoreV1Api:
    try:
        config.load_kube_config()
    except config.ConfigException:
        config.load_incluster_config()
    client.VersionApi().get_code(_request_timeout=_TIMEOUT_SECONDS)
    return client.CoreV1Api()


def _version(tag: str, several: bool) -> Result:
    users = "several users" if several else "one user"
    found = re.match(r"v?(\d+)\.(\d+)", tag)
    text = f"Kubeflow Pipelines {tag or 'of an unknown version'}, {users}"
    version = tuple(map(int, found.groups())) if found else ()
    tested = f"{text}; compiled files are tested for 2.{_OLDEST[1]} to 2.{_NEWEST[1]}"
    if version and version < _OLDEST:
        return Result("fault", f"{tested}: upgrade the server")
    return Result("ok", text) if version and version <= _NEWEST else Result("warning", tested)


def _login(host: str, namespace: str | None) -> Result:
    try:
        server = connect(host, namespace)
        with server_errors(host):
            server.list_runs(page_size=1, namespace=namespace)
    except PenstockError as error:
        return Result("fault", str(error))
    return Result("ok", f"it may list runs{f' of {namespace}' if namespace else ''}")


def _account(core: client.CoreV1Api, space: str, account: str) -> Result:
    remedy = "apply an overlay of k8s/, or name another with --service-account"
    found = _look(core.read_namespaced_service_account, account, space, remedy)
    return found if isinstance(found, Result) else Result("ok", f"{account} in {space}")


def _claim(core: client.CoreV1Api, space: str, name: str) -> Result:
    read = core.read_namespaced_persistent_volume_claim
    found = _look(read, name, space, "apply an overlay of k8s/")
    if isinstance(found, Result):
        return found
    # Some storage classes bind a claim only when a pod uses it.
    state: Any = "ok" if found.status.phase == "Bound" else "warning"
    return Result(state, f"{name} is {found.status.phase}, {', '.join(found.spec.access_modes)}")


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


def _secret(core: client.CoreV1Api, space: str, name: str, keys: Sequence[str]) -> Result:
    literals = "".join(f" --from-literal={key}=..." for key in keys)
    remedy = f"kubectl -n {space} create secret generic {name}{literals}"
    found = _look(core.read_namespaced_secret, name, space, remedy)
    if isinstance(found, Result):
        return found
    lacking = [key for key in keys if key not in (found.data or {})]
    if lacking:
        return Result("fault", f"{name} lacks {', '.join(lacking)}: {remedy}")
    return Result("ok", f"{name} in {space}")


def _look(read: Callable[..., Any], name: str, space: str, remedy: str) -> Any:
    """Returns an object, or the result that says why there is none."""
    try:
        return read(name, space, _request_timeout=_TIMEOUT_SECONDS)
    except client.ApiException as error:
        if error.status == 404:
            return Result("fault", f"no {name} in {space}: {remedy}")
        return Result("unseen", f"{name}: Kubernetes answers {error.status} {error.reason}")
    except HTTPError as error:
        return Result("unseen", f"{name}: {one_line(error)}")
