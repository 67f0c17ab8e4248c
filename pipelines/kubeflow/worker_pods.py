"""A Trainer's workers on Kubernetes: a placement in, the TFJob of Kubeflow's Training Operator out.

The operator (v1) makes a pod and a name for each worker and tells each its place in TF_CONFIG. Pods
that end with a code of 128 and more, as where a peer is gone, are made anew; others fail the job.
"""

from typing import Any

from penstock.pipelines.kubeflow.placement import Placement

LABELS = {
    # What the network policies of runs go by, and that between workers.
    "pipelines.kubeflow.org/v2_component": "true",
    "penstock/role": "worker",
    # It would outlive the worker, and stand between them.
    "sidecar.istio.io/inject": "false",
}
PORT = 2222


def worker_job(placement: Placement, node_id: str, image: str) -> dict[str, Any]:
    """The TFJob of a node, but for its name, its owner and the arguments of its container.

    Each worker gets what the placement has for the node itself.
    """
    pod: dict[str, Any] = {
        "automountServiceAccountToken": False,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": placement.run_as_user,
            "runAsGroup": placement.run_as_user,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [_container(placement, node_id, image)],
    }
    if placement.volume:
        claim = {"claimName": placement.volume.claim}
        pod["volumes"] = [{"name": "penstock", "persistentVolumeClaim": claim}]
    if placement.image_pull_secrets:
        pod["imagePullSecrets"] = [{"name": name} for name in placement.image_pull_secrets]
    if placement.affinity:
        terms = [{"matchExpressions": [one.spec() for one in placement.affinity]}]
        needed = {"nodeSelectorTerms": terms}
        pod["affinity"] = {
            "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": needed}
        }
    if placement.gpu:
        pod["nodeSelector"] = placement.gpu.node_selector
        pod["tolerations"] = [one.spec() for one in placement.gpu.tolerations]
    metadata = {
        "labels": {**placement.pod_labels, **LABELS},
        "annotations": placement.pod_annotations,
    }
    retry = placement.retry
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "TFJob",
        "spec": {
            "runPolicy": {
                "backoffLimit": retry.times * placement.workers,
                "cleanPodPolicy": "Running",
            },
            # Else a pod that is deleted while it runs, as by a drained node, fails the job. With it
            # TF_CONFIG names a worker itself alone.
            "enableDynamicWorker": True,
            "tfReplicaSpecs": {
                "Worker": {
                    "replicas": placement.workers,
                    "restartPolicy": "ExitCode",
                    "template": {"metadata": metadata, "spec": pod},
                }
            },
        },
    }


def _container(placement: Placement, node_id: str, image: str) -> dict[str, Any]:
    resources = placement.resources_of(node_id)
    requests = {"cpu": resources.cpu_request, "memory": resources.memory_request}
    limits = {"cpu": resources.cpu_limit, "memory": resources.memory_limit}
    if placement.gpu:
        limits[placement.gpu.resource] = str(placement.gpu.count)
    container: dict[str, Any] = {
        "name": "tensorflow",  # the one that the operator looks at
        "image": image,
        "command": ["penstock", "worker"],
        "ports": [{"name": "tfjob-port", "containerPort": PORT}],
        "resources": {"requests": requests, "limits": limits},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
        },
    }
    if placement.secret_env:
        container["env"] = [
            {"name": variable, "valueFrom": {"secretKeyRef": {"name": secret, "key": key}}}
            for secret, variables in placement.secret_env.items()
            for key, variable in variables.items()
        ]
    if placement.volume:
        mount = {"name": "penstock", "mountPath": placement.volume.mount_path}
        container["volumeMounts"] = [mount]
    return container
