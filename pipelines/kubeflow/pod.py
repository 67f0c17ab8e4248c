"""Pods of a run, in two forms.

KFP makes the pod of a node from the pipeline spec and the platform config
(`kubernetes_executor_config.proto`). The workers of a Trainer are pods of a JobSet, which takes a
pod template; Kubeflow Trainer v2 installs JobSet. `_render` writes each pod option in both forms.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from kfp import dsl

from penstock.pipelines.kubeflow.compiled_file import tasks_of
from penstock.pipelines.kubeflow.names import NOTIFY, WEBHOOK
from penstock.pipelines.kubeflow.placement import Placement
from penstock.pipelines.kubeflow.plan import Task
from penstock.pipelines.kubeflow.resources import Gpu, Retry
from penstock.pipelines.runs.metadata_store import MYSQL_PASSWORD, MYSQL_USER

# Folder in the container with the certificates for an encrypted connection to MySQL.
MYSQL_TLS = "/var/run/penstock/mysql-tls"
WORKER_PORT = 2222
# Exit codes from this one upwards mean a lost peer or a signal; a worker that ends with one of them
# is started again and continues its training.
_FIRST_RETRIED_CODE = 128
_QUEUE = "kueue.x-k8s.io/queue-name"
# Network policies of a shared namespace select pods of runs by this label.
RUN_LABELS = {"penstock/run": "true"}
WORKER_LABELS = {
    # The network policies of `k8s/components/own-namespace` and `k8s/components/internet` select
    # pods by the first label, the policy of `k8s/components/workers` by the second one.
    "pipelines.kubeflow.org/v2_component": "true",
    "penstock/role": "worker",
    # Istio's sidecar would outlive the worker, and intercept connections between workers.
    "sidecar.istio.io/inject": "false",
}


class _Pod(NamedTuple):
    """A pod in two forms: KFP's platform config, and Kubernetes' PodSpec and Container."""

    kfp: dict[str, Any]
    spec: dict[str, Any]
    container: dict[str, Any]


def place(step: dsl.PipelineTask, task: Task, placement: Placement) -> None:
    """Sets the resources, retries, volume, secrets and pod options of a KFP task."""
    resources, gpu, retry = placement.resources_of(task.node_id), placement.gpu, placement.retry
    if placement.has_workers(task.node_id, task.component):
        # The workers get the node's resources; the node's own pod only starts and watches them.
        resources, gpu = placement.resources, None
    elif gpu and not gpu.is_for(task.node_id, task.component):
        gpu = None
    step.set_cpu_request(resources.cpu_request).set_cpu_limit(resources.cpu_limit)
    step.set_memory_request(resources.memory_request).set_memory_limit(resources.memory_limit)
    if gpu:
        step.set_accelerator_type(gpu.resource).set_accelerator_limit(gpu.count)
    if retry.times:
        step.set_retry(
            num_retries=retry.times,
            backoff_duration=f"{retry.wait_seconds}s",
            backoff_factor=retry.factor,
        )
    pod = _render(placement, gpu).kfp
    pod["podMetadata"] = {"labels": {**placement.pod_labels, **RUN_LABELS}}
    if placement.pod_annotations:
        pod["podMetadata"]["annotations"] = placement.pod_annotations
    secrets = [*placement.secret_env.items()]
    if placement.metadata_mysql:
        login = placement.mysql_secret
        keys = {login.user_key: MYSQL_USER, login.password_key: MYSQL_PASSWORD}
        secrets.append((login.name, keys))
        if login.tls_name:
            tls = {"secretName": login.tls_name, "mountPath": MYSQL_TLS, "optional": False}
            pod["secretAsVolume"] = [tls]
    if task.component == NOTIFY and placement.notify:
        secrets.append((placement.notify.webhook_secret, {placement.notify.webhook_key: WEBHOOK}))
    if secrets:
        pod["secretAsEnv"] = [
            {
                "secretName": name,
                "keyToEnv": [{"secretKey": key, "envVar": to} for key, to in variables.items()],
            }
            for name, variables in secrets
        ]
    # The pod options are written as a dict because kfp-kubernetes for Python 3.10 has no functions
    # for half of them.
    step.platform_config["kubernetes"] = pod


def set_retry_budgets(spec: Mapping[str, Any], retry: Retry) -> None:
    """Writes into a compiled pipeline how long after its first start a task may be retried.

    KFP's `backoffMaxDuration` becomes Argo's `maxDuration`. `maxDuration` is not the longest wait
    but the time since the first attempt began, after which Argo kills even a running attempt. kfp
    writes at most 3600 s. Without `backoffMaxDuration`, `maxDuration` is 0, so no attempt is
    retried. (See `addParameterDefault` in `argocompiler/container.go` of Kubeflow pipelines 2.17,
    and `processNodeRetries` in `operator.go` of Argo 4.0.)
    """
    for task in tasks_of(spec).values():
        if "retryPolicy" in task:
            task["retryPolicy"]["backoffMaxDuration"] = f"{retry.total_seconds}s"


def worker_job(placement: Placement, node_id: str, image: str) -> dict[str, Any]:
    """Returns the JobSet of a node's workers, without name, owner and the workers' arguments."""
    pod = _render(placement, placement.gpu)
    resources = placement.resources_of(node_id)
    limits = {"cpu": resources.cpu_limit, "memory": resources.memory_limit}
    if placement.gpu:
        limits[placement.gpu.resource] = str(placement.gpu.count)
    container = {
        "name": "worker",
        "image": image,
        "command": ["penstock", "worker"],
        "ports": [{"name": "workers", "containerPort": WORKER_PORT}],
        "resources": {
            "requests": {"cpu": resources.cpu_request, "memory": resources.memory_request},
            "limits": limits,
        },
        **pod.container,
    }
    metadata = {
        "labels": {**placement.pod_labels, **RUN_LABELS, **WORKER_LABELS},
        "annotations": placement.pod_annotations,
    }
    template = {"metadata": metadata, "spec": {**pod.spec, "containers": [container]}}
    job = _jobset(placement.workers, placement.retry.times * placement.workers, template)
    if placement.queue is not None:
        job["metadata"] = {"labels": {_QUEUE: placement.queue}}
    return job


def _jobset(workers: int, retries: int, template: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a JobSet of one indexed Job.

    The eviction or preemption of a pod does not count as a retry; an exit code from 1 to 127 fails
    the job.
    """
    rules = [
        {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
        {
            "action": "FailJob",
            "onExitCodes": {
                "containerName": template["spec"]["containers"][0]["name"],
                "operator": "In",
                "values": list(range(1, _FIRST_RETRIED_CODE)),
            },
        },
    ]
    spec = {
        "parallelism": workers,
        "completions": workers,
        "completionMode": "Indexed",
        "backoffLimit": retries,
        "podFailurePolicy": {"rules": rules},
        "template": {**template, "spec": {**template["spec"], "restartPolicy": "Never"}},
    }
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "spec": {
            "failurePolicy": {"maxRestarts": 0},
            "replicatedJobs": [{"name": "worker", "replicas": 1, "template": {"spec": spec}}],
        },
    }


def _render(placement: Placement, gpu: Gpu | None) -> _Pod:
    ids = {"runAsUser": placement.run_as_user, "runAsGroup": placement.run_as_user}
    # This security context has three fields; KFP 2.16 and newer add the others that Pod Security
    # `restricted` requires. In the JSON of a proto, an int64 is a text.
    as_texts = {name: str(value) for name, value in ids.items()}
    kfp: dict[str, Any] = {"securityContext": {**as_texts, "runAsNonRoot": True}}
    seccomp = {"seccompProfile": {"type": "RuntimeDefault"}}
    spec: dict[str, Any] = {
        "automountServiceAccountToken": False,
        "securityContext": {**ids, "runAsNonRoot": True, **seccomp},
    }
    container: dict[str, Any] = {
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    }
    if volume := placement.volume:
        kfp["pvcMount"] = [{"constant": volume.claim, "mountPath": volume.mount_path}]
        claim = {"claimName": volume.claim}
        spec["volumes"] = [{"name": "penstock", "persistentVolumeClaim": claim}]
        container["volumeMounts"] = [{"name": "penstock", "mountPath": volume.mount_path}]
    if secrets := placement.image_pull_secrets:
        kfp["imagePullSecret"] = [{"secretName": name} for name in secrets]
        spec["imagePullSecrets"] = [{"name": name} for name in secrets]
    if placement.affinity:
        terms = [{"matchExpressions": [one.spec() for one in placement.affinity]}]
        kfp["nodeAffinity"] = terms
        needed = {"nodeSelectorTerms": terms}
        spec["affinity"] = {
            "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": needed}
        }
    if placement.secret_env:
        container["env"] = [
            {"name": variable, "valueFrom": {"secretKeyRef": {"name": secret, "key": key}}}
            for secret, variables in placement.secret_env.items()
            for key, variable in variables.items()
        ]
    if gpu:
        kfp["tolerations"] = spec["tolerations"] = [one.spec() for one in gpu.tolerations]
        if gpu.node_selector:
            kfp["nodeSelector"] = {"labels": gpu.node_selector}
            spec["nodeSelector"] = gpu.node_selector
    return _Pod(kfp, spec, container)
