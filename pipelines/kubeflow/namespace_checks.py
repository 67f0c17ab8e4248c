"""Checks a namespace through the Kubernetes API, before the first run; changes nothing."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, NamedTuple

from kubernetes import client
from kubernetes.utils.quantity import parse_quantity

from penstock.pipelines.kubeflow.placement import Placement

# First release of KFP that sets all fields which Pod Security `restricted` requires.
RESTRICTED = (2, 16)
_KFP_NAMESPACE = "kubeflow"
_LAUNCHER = "kfp-launcher"
_STORE_SECRET = "mlpipeline-minio-artifact"
_RUN_LABELS = {"penstock/run": "true", "pipelines.kubeflow.org/v2_component": "true"}
State = Literal["ok", "warning", "fault", "unseen"]


class Result(NamedTuple):
    """State and sentence of a check; the sentence of a fault names the remedy."""

    state: State
    text: str


ok, warning, fault, unseen = (
    partial(Result, state) for state in ("ok", "warning", "fault", "unseen")
)


@dataclass(frozen=True)
class Target:
    """Namespace, account and placement of runs, and the server's version, () if unknown."""

    api: client.ApiClient
    namespace: str
    account: str
    placement: Placement
    version: tuple[int, ...]

    @property
    def core(self) -> client.CoreV1Api:
        return client.CoreV1Api(self.api)


def check_cluster(target: Target) -> Iterator[tuple[str, Result]]:
    """Yields subject and result of each check of the namespace."""
    try:
        target.core.read_namespace(target.namespace)
    except client.ApiException as error:
        if error.status == 404:
            yield "namespace", fault(f"no {target.namespace}: make a profile of that name")
            return
    for subject, check in _CHECKS.items():
        try:
            yield from ((subject, one) for one in list(check(target)))
        except client.ApiException as error:
            if error.status in (401, 403):
                yield subject, unseen(f"your account may not look: {_message(error)}")
            else:
                yield subject, unseen(f"Kubernetes answers {error.status}: {_message(error)}")


def _check_rights(target: Target) -> Iterator[Result]:
    core, space = target.core, target.namespace
    if _missing(core.read_namespaced_service_account, target.account, space):
        yield fault(
            f"no account {target.account} in {space}: apply an overlay of k8s/, or name another "
            "with --service-account"
        )
        return
    review = client.AuthorizationV1Api(target.api).create_namespaced_local_subject_access_review
    needed = [
        ("create", "argoproj.io", "workflowtaskresults", ""),
        ("get", "", "pods", ""),
        ("get", "", "configmaps", _LAUNCHER),
        ("get", "", "secrets", _STORE_SECRET),
    ]
    if target.placement.workers > 1:
        is_tfjob = target.placement.worker_kind == "TFJob"
        made = ("kubeflow.org", "tfjobs") if is_tfjob else ("jobset.x-k8s.io", "jobsets")
        needed.append(("create", *made, ""))
    refused = []
    for verb, group, resource, name in needed:
        attributes = client.V1ResourceAttributes(
            verb=verb, group=group, resource=resource, name=name, namespace=space
        )
        user = f"system:serviceaccount:{space}:{target.account}"
        spec = client.V1SubjectAccessReviewSpec(user=user, resource_attributes=attributes)
        if not review(
            space,
            client.V1LocalSubjectAccessReview(
                spec=spec, metadata=client.V1ObjectMeta(namespace=space)
            ),
        ).status.allowed:
            refused.append(f"{verb} {resource}{f' {name}' if name else ''}")
    if refused:
        yield fault(f"{target.account} may not {', '.join(refused)}: apply an overlay of k8s/")
    else:
        yield ok(f"{target.account} may do what Argo, KFP's launcher and nodes do")


def _check_secrets(target: Target) -> Iterator[Result]:
    placement, read = target.placement, target.core.read_namespaced_secret
    wanted: dict[str, Sequence[str]] = dict.fromkeys(placement.image_pull_secrets, ())
    wanted.update({name: [*keys] for name, keys in placement.secret_env.items()})
    if placement.metadata_mysql:
        login = placement.mysql_secret
        wanted[login.name] = [login.user_key, login.password_key]
        if login.tls_name:
            wanted[login.tls_name] = ["ca.crt"]
    faults = 0
    for name, keys in wanted.items():
        found = _found(read, name, target.namespace)
        lacking = [key for key in keys if key not in ((found and found.data) or {})]
        literals = "".join(f" --from-literal={key}=..." for key in lacking)
        if found is None or lacking:
            faults += 1
            yield fault(
                f"secret {name} {'lacks keys' if found else 'does not exist'}: kubectl -n "
                f"{target.namespace} create secret generic {name}{literals}"
            )
    if not faults:
        yield ok(", ".join(wanted) or "the placement names none")


def _check_store(target: Target) -> Iterator[Result]:
    core, space = target.core, target.namespace
    settings = _found(core.read_namespaced_config_map, _LAUNCHER, space)
    data = (settings and settings.data) or {}
    root = data.get("defaultPipelineRoot") or "minio://mlpipeline/v2/artifacts"
    if "providers" in data:
        yield ok(f"{root}, by the providers of ConfigMap {_LAUNCHER}")
    elif _missing(core.read_namespaced_secret, _STORE_SECRET, space):
        yield fault(
            f"{root}: no secret {_STORE_SECRET} in {space}, so nodes fail after their work: make "
            f"the namespace a profile, or copy the secret from {_KFP_NAMESPACE}"
        )
    else:
        yield ok(f"{root}, with the login in secret {_STORE_SECRET}")


def _check_dns(target: Target) -> Iterator[Result]:
    services = target.core.list_namespaced_service
    for space, label in (("kube-system", "k8s-app=kube-dns"), ("openshift-dns", "")):
        if services(space, label_selector=label).items:
            if space == "kube-system" or not _denies(_policies(target)):
                yield ok(f"in {space}")
            else:
                yield warning(
                    f"in {space}: k8s/components/runs-network opens kube-system only; patch it, or "
                    "use the overlay profile"
                )
            return
    yield warning("no DNS service in kube-system or openshift-dns: runs must reach yours")


def _check_quota(target: Target) -> Iterator[Result]:
    placement = target.placement
    needs = _largest_pod(placement)
    short = []
    for quota in target.core.list_namespaced_resource_quota(target.namespace).items:
        used = quota.status.used or {}
        for name, hard in (quota.status.hard or {}).items():
            wanted = needs.get(name, 0)
            left = parse_quantity(hard) - parse_quantity(used.get(name, "0"))
            if wanted > left:
                free = f"{left.normalize():f}"
                short.append(f"{quota.metadata.name} has {free} of {name}, a node asks {wanted:f}")
    if short:
        yield fault(f"{'; '.join(short)}: raise the quota, or lower the placement's resources")
    else:
        yield ok("there is room for the largest node")


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


def _check_policies(target: Target) -> Iterator[Result]:
    space = target.namespace
    policies = _policies(target)
    ours = [one.metadata.name for one in policies if _is_for_runs(one)]
    if _denies(policies) and not ours:
        yield fault(
            f"a policy of {space} denies what pods send, and none lets runs reach DNS, KFP and the "
            "store: apply the overlay profile"
        )
    else:
        yield ok(f"{', '.join(ours)} for runs" if ours else "none binds pods of runs")
    labels = target.core.read_namespace(space).metadata.labels or {}
    level = labels.get("pod-security.kubernetes.io/enforce", "none")
    if level == "restricted" and target.version and target.version[:2] < RESTRICTED:
        yield fault(
            f"Pod Security is restricted, which pods of this server do not fit before "
            f"{'.'.join(map(str, RESTRICTED))}: kubectl label namespace {space} --overwrite "
            "pod-security.kubernetes.io/enforce=baseline"
        )
    else:
        yield ok(f"Pod Security {level}, which pods of runs fit")


def _check_volume(target: Target) -> Iterator[Result]:
    volume = target.placement.volume
    if volume is None:
        yield ok("the placement has none")
        return
    read = target.core.read_namespaced_persistent_volume_claim
    found = _found(read, volume.claim, target.namespace)
    if found is None:
        yield fault(f"no claim {volume.claim} in {target.namespace}: apply an overlay of k8s/")
    elif found.status.phase != "Bound":
        # Some storage classes bind a claim only when a pod uses it.
        yield warning(
            f"claim {volume.claim} is {found.status.phase}: kubectl -n {target.namespace} "
            f"describe pvc {volume.claim} says why; some classes wait for the first pod"
        )
    else:
        yield ok(f"claim {volume.claim} is bound ({', '.join(found.spec.access_modes)})")


def _check_metadata(target: Target) -> Iterator[Result]:
    store = target.placement.metadata_mysql
    if store is None:
        yield ok(f"{target.placement.metadata_sqlite}, on the volume")
        return
    name, _, space = store.host.partition(".")
    space = space.split(".")[0] or target.namespace
    read = target.core.read_namespaced_endpoints
    found = _found(read, name, space)
    if found is None:
        yield unseen(f"{store.host} is no service of {space}; pods must reach port {store.port}")
    elif not any(subset.addresses for subset in found.subsets or ()):
        yield fault(
            f"service {name} has no ready pod: kubectl -n {space} get pods; MariaDB of k8s/ waits "
            f"for secret {target.placement.mysql_secret.name}"
        )
    else:
        yield ok(f"service {name} has a ready pod")


def _check_retries(target: Target) -> Iterator[Result]:
    read = target.core.read_namespaced_config_map
    found = _found(read, "workflow-controller-configmap", _KFP_NAMESPACE)
    if "retryPolicy: Always" in str((found and found.data) or ""):
        yield ok("failed nodes and lost pods are tried again")
    else:
        yield warning(
            "Argo's own retryPolicy covers failed nodes or lost pods, not both: apply "
            "k8s/kfp/workflow-defaults.yaml (docs/kubeflow/operations.md, Retries)"
        )


_CHECKS: dict[str, Callable[[Target], Iterator[Result]]] = {
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


def _policies(target: Target) -> list[Any]:
    found = client.NetworkingV1Api(target.api).list_namespaced_network_policy(target.namespace)
    return list(found.items)


def _denies(policies: Sequence[Any]) -> bool:
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
