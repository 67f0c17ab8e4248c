"""Checks of a Kubeflow Pipelines server and of a namespace, before the first run.

In: the server's address, a namespace, a placement, an image. Out: one finding per check. Reaches
the server and the registry over HTTP, and the Kubernetes API with the caller's kubeconfig; a check
whose objects the caller may not read is "unseen".
"""

import re
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from typing import Any

from kubernetes import client, config
from urllib3.exceptions import HTTPError

from penstock.components.errors import PenstockError, one_line
from penstock.pipelines.kubeflow.namespace_checks import (
    Result,
    Target,
    check_cluster,
    fault,
    ok,
    unseen,
    warning,
)
from penstock.pipelines.kubeflow.placement import Placement
from penstock.pipelines.kubeflow.server import check_login, connect, health, server_errors

# KFP releases whose protos the tests use to parse compiled files.
OLDEST, NEWEST = (2, 5), (2, 17)
_TIMEOUT_SECONDS = 10
_MANIFESTS = (
    "application/vnd.oci.image.index.v1+json, application/vnd.oci.image.manifest.v1+json, "
    "application/vnd.docker.distribution.manifest.list.v2+json, "
    "application/vnd.docker.distribution.manifest.v2+json"
)
_IMAGE = re.compile(
    r"(?P<host>[^/]+[.:][^/]*)/(?P<name>[^@]+?)(:(?P<tag>[\w.-]+))?(@(?P<digest>.+))?"
)


def examine(
    host: str, namespace: str | None, account: str | None, placement: Placement, image: str | None
) -> Iterator[tuple[str, Result]]:
    """Yields subject and result of all checks, the checks of the server first."""
    answer: dict[str, Any] = {}
    try:
        answer = health(host)
    except PenstockError as error:
        yield "server", fault(str(error))
    several = bool(answer.get("multi_user"))
    version = _version(str(answer.get("tag_name") or ""))
    if answer:
        yield "server", _check_version(version, several)
        yield "login", _check_login(host, namespace, several)
    if image:
        yield "image", _check_image(image, placement)
    try:
        api = _kubernetes()
    except (config.ConfigException, client.ApiException, HTTPError) as error:
        why = f"{type(error).__name__}: {one_line(error)}"
        yield "cluster", unseen(f"no Kubernetes API to ask ({why}), so all else was not looked at")
        return
    account = account or ("default-editor" if several else "pipeline-runner")
    yield from check_cluster(Target(api, namespace or "kubeflow", account, placement, version))


def _kubernetes() -> client.ApiClient:
    try:
        config.load_kube_config()
    except config.ConfigException:
        config.load_incluster_config()
    api = client.ApiClient()
    client.VersionApi(api).get_code(_request_timeout=_TIMEOUT_SECONDS)
    return api


def _check_version(version: tuple[int, ...], several: bool) -> Result:
    users = "several users" if several else "one user"
    if not version:
        return warning(f"Kubeflow Pipelines of an unknown version, {users}")
    text = f"Kubeflow Pipelines {'.'.join(map(str, version))}, {users}"
    tested = f"compiled files are tested for {_dotted(OLDEST)} to {_dotted(NEWEST)}"
    if version[:2] < OLDEST:
        return fault(f"{text}; {tested}: upgrade the server")
    return warning(f"{text}; {tested}") if version[:2] > NEWEST else ok(text)


def _check_login(host: str, namespace: str | None, several: bool) -> Result:
    if several and not namespace:
        return fault("the server has several users: name yours with --namespace")
    try:
        text = check_login()
        server = connect(host, namespace)
        with server_errors(host):
            server.list_runs(page_size=1, namespace=namespace)
    except PenstockError as error:
        return fault(str(error))
    return ok(f"{text}; it may list runs{f' of {namespace}' if namespace else ''}")


def _check_image(image: str, placement: Placement) -> Result:
    found = _IMAGE.fullmatch(image)
    if not found:
        return unseen(f"{image} names no registry: each node of the cluster must have it")
    reference = found["digest"] or found["tag"] or "latest"
    address = f"https://{found['host']}/v2/{found['name']}/manifests/{reference}"
    request = urllib.request.Request(address, method="HEAD", headers={"Accept": _MANIFESTS})
    try:
        urllib.request.urlopen(request, timeout=_TIMEOUT_SECONDS).close()
    except urllib.error.HTTPError as error:
        error.close()
        if error.code == 404:
            return fault(f"{found['host']} has no {found['name']} {reference}: push it")
        if error.code not in (401, 403):
            return unseen(f"{found['host']} answers {error.code}")
        if placement.image_pull_secrets:
            return unseen(f"{found['host']} asks for a login; pods have image_pull_secrets")
        return warning(
            f"{found['host']} asks for a login: unless the cluster's nodes have one, name a secret "
            "in the placement's image_pull_secrets"
        )
    except OSError as error:
        return unseen(f"{found['host']} cannot be reached from here ({one_line(error)})")
    return ok(f"{found['host']} has it, without a login")


def _version(tag: str) -> tuple[int, ...]:
    found = re.match(r"v?(\d+)\.(\d+)(?:\.(\d+))?", tag)
    return tuple(int(part) for part in found.groups() if part) if found else ()


def _dotted(version: Sequence[int]) -> str:
    return ".".join(map(str, version))
