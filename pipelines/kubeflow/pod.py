"""Requests of a task to Kubernetes, in the two forms that KFP has for them.

In: a kfp task and the placement. Out: resources and retries in KFP's pipeline spec; volume,
secrets and the rest of the pod in its platform config.
"""

from collections.abc import Mapping
from typing import Any

from kfp import dsl, kubernetes

from penstock.pipelines.kubeflow.placement import Placement
from penstock.pipelines.kubeflow.plan import Task
from penstock.pipelines.kubeflow.resources import Gpu, Retry
from penstock.pipelines.runs.metadata_store import MYSQL_PASSWORD, MYSQL_USER

# Where a container finds what encrypts its connection to MySQL.
MYSQL_TLS = "/var/run/penstock/mysql-tls"


def place(step: dsl.PipelineTask, task: Task, placement: Placement) -> None:
    """Give a task its resources, retries, volume, login and pod."""
    resources, retry = placement.resources_of(task.node_id), placement.retry
    leaves_work = placement.has_workers(task.node_id, task.component)
    if leaves_work:  # to those who get what the node would
        resources = placement.resources
    step.set_cpu_request(resources.cpu_request).set_cpu_limit(resources.cpu_limit)
    step.set_memory_request(resources.memory_request).set_memory_limit(resources.memory_limit)
    if retry.times:
        step.set_retry(
            num_retries=retry.times,
            backoff_duration=f"{retry.wait_seconds}s",
            backoff_factor=retry.factor,
        )
    if placement.volume:
        kubernetes.mount_pvc(
            step, pvc_name=placement.volume.claim, mount_path=placement.volume.mount_path
        )
    if placement.metadata_mysql:
        secret = placement.mysql_secret
        kubernetes.use_secret_as_env(
            step,
            secret_name=secret.name,
            secret_key_to_env={secret.user_key: MYSQL_USER, secret.password_key: MYSQL_PASSWORD},
        )
        if secret.tls_name:
            kubernetes.use_secret_as_volume(step, secret.tls_name, MYSQL_TLS)
    for name, variables in placement.secret_env.items():
        kubernetes.use_secret_as_env(step, secret_name=name, secret_key_to_env=variables)
    gpu = placement.gpu
    if leaves_work or (gpu is not None and not gpu.is_for(task.node_id, task.component)):
        gpu = None
    if gpu:
        step.set_accelerator_type(gpu.resource).set_accelerator_limit(gpu.count)
        for key, value in gpu.node_selector.items():
            kubernetes.add_node_selector(step, label_key=key, label_value=value)
    # kfp-kubernetes 1.0 has no functions for these, and fails at what it does not know: so last.
    step.platform_config.setdefault("kubernetes", {}).update(_pod(placement, gpu))


def set_retry_budgets(spec: Mapping[str, Any], retry: Retry) -> None:
    """Say in a compiled pipeline until when its tasks are tried again.

    KFP's `backoffMaxDuration` becomes Argo's `maxDuration`: not the longest wait but the time since
    the first try began, after which a running try is killed too. kfp writes an hour at most, and
    3600 s where nothing is said; left out of the file it becomes 0, which is no retry at all.
    (pipelines 2.17 `argocompiler/container.go` addParameterDefault; Argo 4.0
    `operator.go` processNodeRetries.)
    """
    for task in spec["root"]["dag"]["tasks"].values():
        if "retryPolicy" in task:
            task["retryPolicy"]["backoffMaxDuration"] = f"{retry.total_seconds}s"


def _pod(placement: Placement, gpu: Gpu | None) -> dict[str, Any]:
    """What KFP's servers read of a pod beyond what kfp-kubernetes 1.0 writes."""
    user = str(placement.run_as_user)  # a proto's int64 is a text in JSON
    # KFP drops all capabilities and sets the seccomp profile by itself, since 2.16.
    config: dict[str, Any] = {
        "securityContext": {"runAsUser": user, "runAsGroup": user, "runAsNonRoot": True}
    }
    metadata = {"labels": placement.pod_labels, "annotations": placement.pod_annotations}
    if any(metadata.values()):
        config["podMetadata"] = {name: texts for name, texts in metadata.items() if texts}
    if placement.image_pull_secrets:
        names = placement.image_pull_secrets
        config["imagePullSecret"] = [{"secretName": name} for name in names]
    if placement.affinity:
        config["nodeAffinity"] = [{"matchExpressions": [one.spec() for one in placement.affinity]}]
    if gpu:
        config["tolerations"] = [one.spec() for one in gpu.tolerations]
    return config
