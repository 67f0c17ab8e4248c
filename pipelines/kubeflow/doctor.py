"""Checks of a Kubeflow Pipelines server and of a namespace, before the first run.

In: the server's address, a namespace, a placement, an image. Out: one finding per check. The server
and the registry are asked over HTTP; everything else is asked of the Kubernetes API with the
caller's kubeconfig, and what that may not read is said to be unseen.
"""

import re
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, NamedTuple

from kubernetes import client, config
from kubernetes.utils.quantity import parse_quantity
from urllib3.exceptions import HTTPError

from penstock.components.errors import PenstockError, one_line
from penstock.pipelines.kubeflow.placement import Placement
from penstock.pipelines.kubeflow.server import check_login, connect, health, server_errors

State = Literal["ok", "warning", "fault", "unseen"]
# Releases against whose protos compiled files are tested, and the first that sets all that Pod
# Security `restricted` asks for.
OLDEST, NEWEST, RESTRICTED = (2, 5), (2, 17), (2, 16)
_TIMEOUT_SECONDS = 10
_KFP_NAMESPACE = "kubeflow"
_LAUNCHER = "kfp-launcher"
_STORE_SECRET = "mlpipeline-minio-artifact"
_MANIFESTS = (
    "application/vnd.oci.image.index.v1+json, application/vnd.oci.image.manifest.v1+json, "
    "application/vnd.docker.distribution.manifest.list.v2+json, "
    "application/vnd.docker.distribution.manifest.v2+json"
)
_IMAGE = re.compile(
    r"(?P<host>[^/]+[.:][^/]*)/(?P<name>[^@]+?)(:(?P<tag>[\w.-]+))?(@(?P<digest>.+))?"
)
_RUN_LABELS = {"penstock/run": "true", "pipelines.kubeflow.org/v2_component": "true"}


@dataclass(frozen=True)
class Finding:
    """Result of one check; a fault's text says the remedy."""

    subject: str
    state: State
    text: str


@dataclass(frozen=True)
class Examined:
    """What a check needs to know; `version` is the server's, () if it does not say."""

    namespace: str
    account: str
    placement: Placement
    image: str | None
    version: tuple[int, ...] = ()


class Result(NamedTuple):
    """State and sentence of a check."""

    state: State
    text: str


_ok, _warning, _fault, _unseen = (
    partial(Result, state) for state in ("ok", "warning", "fault", "unseen")
)
Check = Callable[[client.ApiClient, Examined], Iterator[Result]]


def examine(
    host: str, namespace: str | None, account: str | None, placement: Placement, image: str | None
) -> Iterator[Finding]:
    """Yields the findings of all checks, server first; none of them changes anything."""
    try:
        answer = health(host)
    except PenstockError as error:
        yield Finding("server", "fault", str(error))
        answer = {}
    several = bool(answer.get("multi_user"))
    version = _version(str(answer.get("tag_name") or ""))
    if answer:
        yield Finding("server", *_check_version(answer, version))
        yield Finding("login", *_check_login(host, namespace, several))
    examined = Examined(
        namespace or _KFP_NAMESPACE,
        account or ("default-editor" if several else "pipeline-runner"),
        placement,
        image,
        version,
    )
    if image:
        yield Finding("image", *_check_image(image, placement))
    yield from _examine_cluster(examined)


def _check_version(answer: dict[str, Any], version: tuple[int, ...]) -> Result:
    users = "several users" if answer.get("multi_user") else "one user"
    if not version:
        return _warning(f"Kubeflow Pipelines of an unknown version, {users}")
    text = f"Kubeflow Pipelines {'.'.join(map(str, version))}, {users}"
    tested = f"compiled files are tested for {_dotted(OLDEST)} to {_dotted(NEWEST)}"
    if version[:2] < OLDEST:
        return _fault(f"{text}; {tested}: upgrade the server")
    return _warning(f"{text}; {tested}") if version[:2] > NEWEST else _ok(text)


def _check_login(host: str, namespace: str | None, several: bool) -> Result:
    if several and not namespace:
        return _fault("the server has several users: name yours with --namespace")
    try:
        text = check_login()
        server = connect(host, namespace)
        with server_errors(host):
            server.list_runs(page_size=1, namespace=namespace)
    except PenstockError as error:
        return _fault(str(error))
    return _ok(f"{text}; it may list runs{f' of {namespace}' if namespace else ''}")


def _check_image(image: str, placement: Placement) -> Result:
    found = _IMAGE.fullmatch(image)
    if not found:
        return _unseen(f"{image} names no registry: each node of the cluster must have it")
    reference = found["digest"] or found["tag"] or "latest"
    address = f"https://{found['host']}/v2/{found['name']}/manifests/{reference}"
    request = urllib.request.Request(address, method="HEAD", headers={"Accept": _MANIFESTS})
    try:
        urllib.request.urlopen(request, timeout=_TIMEOUT_SECONDS).close()
    except urllib.error.HTTPError as error:
        error.close()
        if error.code == 404:
            return _fault(f"{found['host']} has no {found['name']} {reference}: push it")
        if error.code not in (401, 403):
            return _unseen(f"{found['host']} answers {error.code}")
        if placement.image_pull_secrets:
            return _unseen(f"{found['host']} asks for a login; pods have image_pull_secrets")
        return _warning(
            f"{found['host']} asks for a login: unless the cluster's nodes have one, name a secret "
            "in the placement's image_pull_secrets"
        )
    except OSError as error:
        return _unseen(f"{found['host']} cannot be reached from here ({one_line(error)})")
    return _ok(f"{found['host']} has it, without a login")


def _examine_cluster(examined: Examined) -> Iterator[Finding]:
    try:
        try:
            config.load_kube_config()
        except config.ConfigException:
            config.load_incluster_config()
    except config.ConfigException:
        text = "no kubeconfig on this machine, so all else was not looked at"
        yield Finding("cluster", "unseen", text)
        return
    api = client.ApiClient()
    try:
        client.VersionApi(api).get_code(_request_timeout=_TIMEOUT_SECONDS)
    except (client.ApiException, HTTPError) as error:
        text = f"{api.configuration.host} does not answer ({type(error).__name__})"
        yield Finding("cluster", "unseen", f"{text}, so all else was not looked at")
        return
    for subject, check in _CHECKS.items():
        yield from (Finding(subject, *one) for one in _seen(check, api, examined))


def _seen(check: Check, api: client.ApiClient, examined: Examined) -> list[Result]:
    try:
        return list(check(api, examined))
    except client.ApiException as error:
        if error.status in (401, 403):
            return [_unseen(f"your account may not look: {_message(error)}")]
        return [_unseen(f"the Kubernetes API answers {error.status}: {_message(error)}")]


def _check_rights(api: client.ApiClient, examined: Examined) -> Iterator[Result]:
    core, space = client.CoreV1Api(api), examined.namespace
    if _missing(core.read_namespaced_service_account, examined.account, space):
        yield _fault(
            f"no account {examined.account} in {space}: apply an overlay of k8s/, or name another "
            "with --service-account"
        )
        return
    review = client.AuthorizationV1Api(api).create_namespaced_local_subject_access_review
    needed = [
        ("create", "argoproj.io", "workflowtaskresults", ""),
        ("get", "", "pods", ""),
        ("get", "", "configmaps", _LAUNCHER),
        ("get", "", "secrets", _STORE_SECRET),
    ]
    if examined.placement.workers > 1:
        is_tfjob = examined.placement.worker_kind == "TFJob"
        made = ("kubeflow.org", "tfjobs") if is_tfjob else ("jobset.x-k8s.io", "jobsets")
        needed.append(("create", *made, ""))
    refused = []
    for verb, group, resource, name in needed:
        attributes = client.V1ResourceAttributes(
            verb=verb, group=group, resource=resource, name=name, namespace=space
        )
        user = f"system:serviceaccount:{space}:{examined.account}"
        spec = client.V1SubjectAccessReviewSpec(user=user, resource_attributes=attributes)
        if not review(
            space,
            client.V1LocalSubjectAccessReview(
                spec=spec, metadata=client.V1ObjectMeta(namespace=space)
            ),
        ).status.allowed:
            refused.append(f"{verb} {resource}{f' {name}' if name else ''}")
    if refused:
        yield _fault(f"{examined.account} may not {', '.join(refused)}: apply an overlay of k8s/")
    else:
        yield _ok(f"{examined.account} may do what Argo, KFP's launcher and nodes do")


def _check_secrets(api: client.ApiClient, examined: Examined) -> Iterator[Result]:
    placement, read = examined.placement, client.CoreV1Api(api).read_namespaced_secret
    wanted: dict[str, Sequence[str]] = dict.fromkeys(placement.image_pull_secrets, ())
    wanted.update({name: [*keys] for name, keys in placement.secret_env.items()})
    if placement.metadata_mysql:
        login = placement.mysql_secret
        wanted[login.name] = [login.user_key, login.password_key]
        if login.tls_name:
            wanted[login.tls_name] = ["ca.crt"]
    faults = 0
    for name, keys in wanted.items():
        found = _found(read, name, examined.namespace)
        lacking = [key for key in keys if key not in ((found and found.data) or {})]
        literals = "".join(f" --from-literal={key}=..." for key in lacking)
        if found is None or lacking:
            faults += 1
            yield _fault(
                f"secret {name} {'lacks keys' if found else 'does not exist'}: kubectl -n "
                f"{examined.namespace} create secret generic {name}{literals}"
            )
    if not faults:
        yield _ok(", ".join(wanted) or "the placement names none")


def _check_store(api: client.ApiClient, examined: Examined) -> Iterator[Result]:
    core, space = client.CoreV1Api(api), examined.namespace
    settings = _found(core.read_namespaced_config_map, _LAUNCHER, space)
    data = (settings and settings.data) or {}
    root = data.get("defaultPipelineRoot", "minio://mlpipeline/v2/artifacts")
    if "providers" in data:
        yield _ok(f"{root}, by the providers of ConfigMap {_LAUNCHER}")
    elif _missing(core.read_namespaced_secret, _STORE_SECRET, space):
        yield _fault(
            f"{root}: no secret {_STORE_SECRET} in {space}, so nodes fail after their work: make "
            f"the namespace a profile, or copy the secret from {_KFP_NAMESPACE}"
        )
    else:
        yield _ok(f"{root}, with the login in secret {_STORE_SECRET}")


def _check_dns(api: client.ApiClient, examined: Examined) -> Iterator[Result]:
    services = client.CoreV1Api(api).list_namespaced_service
    for space, label in (("kube-system", "k8s-app=kube-dns"), ("openshift-dns", "")):
        if services(space, label_selector=label).items:
            if space == "kube-system" or not _denies(_policies(api, examined)):
                yield _ok(f"in {space}")
            else:
                yield _warning(
                    f"in {space}: k8s/components/runs-network opens kube-system only; patch it, or "
                    "use the overlay profile"
                )
            return
    yield _warning("no DNS service in kube-system or openshift-dns: runs must reach yours")


def _check_quota(api: client.ApiClient, examined: Examined) -> Iterator[Result]:
    placement = examined.placement
    needs = _largest_pod(placement)
    short = []
    for quota in client.CoreV1Api(api).list_namespaced_resource_quota(examined.namespace).items:
        used = quota.status.used or {}
        for name, hard in (quota.status.hard or {}).items():
            wanted = needs.get(name, 0)
            left = parse_quantity(hard) - parse_quantity(used.get(name, "0"))
            if wanted > left:
                free = f"{left.normalize():f}"
                short.append(f"{quota.metadata.name} has {free} of {name}, a node asks {wanted:f}")
    if short:
        yield _fault(f"{'; '.join(short)}: raise the quota, or lower the placement's resources")
    else:
        yield _ok("there is room for the largest node")


def _largest_pod(placement: Placement) -> dict[str, Any]:
    every = [placement.resources, *(placement.resources_of(name) for name in placement.nodes)]
    needs = {
        f"{kind}.{what}": max(parse_quantity(getattr(one, f"{what}_{kind[:-1]}")) for one in every)
        for kind in ("requests", "limits")
        for what in ("cpu", "memory")
    }
    needs["pods"] = parse_quantity("1")
    if placement.gpu:
        needs[f"requests.{placement.gpu.resource}"] = parse_quantity(str(placement.gpu.count))
    return needs


def _check_policies(api: client.ApiClient, examined: Examined) -> Iterator[Result]:
    space = examined.namespace
    policies = _policies(api, examined)
    ours = [one.metadata.name for one in policies if _is_for_runs(one)]
    if _denies(policies) and not ours:
        yield _fault(
            f"a policy of {space} denies what pods send, and none lets runs reach DNS, KFP and the "
            "store: apply the overlay profile"
        )
    else:
        yield _ok(f"{', '.join(ours)} for runs" if ours else "none binds pods of runs")
    labels = client.CoreV1Api(api).read_namespace(space).metadata.labels or {}
    level = labels.get("pod-security.kubernetes.io/enforce", "none")
    if level == "restricted" and examined.version and examined.version[:2] < RESTRICTED:
        yield _fault(
            f"Pod Security is restricted, which pods of this server do not fit before "
            f"{_dotted(RESTRICTED)}: kubectl label namespace {space} --overwrite "
            "pod-security.kubernetes.io/enforce=baseline"
        )
    else:
        yield _ok(f"Pod Security {level}, which pods of runs fit")


def _check_volume(api: client.ApiClient, examined: Examined) -> Iterator[Result]:
    volume = examined.placement.volume
    if volume is None:
        yield _ok("the placement has none")
        return
    read = client.CoreV1Api(api).read_namespaced_persistent_volume_claim
    found = _found(read, volume.claim, examined.namespace)
    if found is None:
        yield _fault(f"no claim {volume.claim} in {examined.namespace}: apply an overlay of k8s/")
    elif found.status.phase != "Bound":
        # A class may bind a claim only when a pod uses it.
        yield _warning(
            f"claim {volume.claim} is {found.status.phase}: kubectl -n {examined.namespace} "
            f"describe pvc {volume.claim} says why; some classes wait for the first pod"
        )
    else:
        yield _ok(f"claim {volume.claim} is bound ({', '.join(found.spec.access_modes)})")


def _check_metadata(api: client.ApiClient, examined: Examined) -> Iterator[Result]:
    store = examined.placement.metadata_mysql
    if store is None:
        yield _ok(f"{examined.placement.metadata_sqlite}, on the volume")
        return
    name, _, space = store.host.partition(".")
    space = space.split(".")[0] or examined.namespace
    read = client.CoreV1Api(api).read_namespaced_endpoints
    found = _found(read, name, space)
    if found is None:
        yield _unseen(f"{store.host} is no service of {space}; pods must reach port {store.port}")
    elif not any(subset.addresses for subset in found.subsets or ()):
        yield _fault(
            f"service {name} has no ready pod: kubectl -n {space} get pods; MariaDB of k8s/ waits "
            f"for secret {examined.placement.mysql_secret.name}"
        )
    else:
        yield _ok(f"service {name} has a ready pod")


def _check_retries(api: client.ApiClient, examined: Examined) -> Iterator[Result]:
    del examined
    read = client.CoreV1Api(api).read_namespaced_config_map
    found = _found(read, "workflow-controller-configmap", _KFP_NAMESPACE)
    if "retryPolicy: Always" in str((found and found.data) or ""):
        yield _ok("failed nodes and lost pods are tried again")
    else:
        yield _warning(
            "Argo's own retryPolicy covers failed nodes or lost pods, not both: apply "
            "k8s/kfp/workflow-defaults.yaml (docs/kubeflow/operations.md, Retries)"
        )


_CHECKS: dict[str, Check] = {
    "rights": _check_rights,
    "secrets": _check_secrets,
    "store": _check_store,
    "DNS": _check_dns,
    "quota": _check_quota,
    "policies": _check_policies,
    "volume": _check_volume,
    "metadata": _check_metadata,
    "retries": _check_retries,
}


def _policies(api: client.ApiClient, examined: Examined) -> list[Any]:
    found = client.NetworkingV1Api(api).list_namespaced_network_policy(examined.namespace)
    return list(found.items)


def _denies(policies: Sequence[Any]) -> bool:
    """Returns whether a policy for all pods restricts what they send."""
    return any(
        "Egress" in (one.spec.policy_types or ()) and not _labels(one) and not one.spec.egress
        for one in policies
    )


def _is_for_runs(policy: Any) -> bool:
    labels = _labels(policy)
    return bool(labels) and labels.items() <= _RUN_LABELS.items()


def _labels(policy: Any) -> dict[str, str]:
    return policy.spec.pod_selector.match_labels or {}


def _found(read: Callable[[str, str], Any], name: str, namespace: str) -> Any | None:
    try:
        return read(name, namespace)
    except client.ApiException as error:
        if error.status == 404:
            return None
        raise


def _missing(read: Callable[[str, str], Any], name: str, namespace: str) -> bool:
    return _found(read, name, namespace) is None


def _message(error: client.ApiException) -> str:
    found = re.search(r'"message":\s*"((?:[^"\\]|\\.)*)"', str(error.body))
    return found[1].replace('\\"', '"') if found else str(error.reason)


def _version(tag: str) -> tuple[int, ...]:
    found = re.match(r"v?(\d+)\.(\d+)(?:\.(\d+))?", tag)
    return tuple(int(part) for part in found.groups() if part) if found else ()


def _dotted(version: Sequence[int]) -> str:
    return ".".join(map(str, version))
