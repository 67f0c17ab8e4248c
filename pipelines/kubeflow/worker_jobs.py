"""The Trainer's node with several workers: it starts a TFJob, watches it, and clears it away.

    node's pod    the TFX node: driver, metadata, the TFJob and its logs; needs no accelerator
    workers       run the node's executor on what the node left in the pipeline's root for them;
                  the chief leaves TFX's executor output there, as TFX's remote executors do

The TFJob belongs to the node's pod, so that it goes with it, whatever becomes of that.
"""

import calendar
import copy
import posixpath
import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from kubernetes import client, config
from tfx.dsl.components.base import base_executor
from tfx.dsl.io import fileio
from tfx.orchestration.portable import data_types, python_executor_operator
from tfx.proto.orchestration import execution_invocation_pb2, execution_result_pb2
from tfx.utils import import_utils
from urllib3.exceptions import HTTPError

from penstock.components.errors import DataError, PenstockError, UsageError
from penstock.components.trainer.workers import join_workers

_KIND = ("kubeflow.org", "v1")
_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_POLL_SECONDS = 5.0
# How long the API may be away, as while a control plane is upgraded.
_API_PATIENCE_SECONDS = 300.0


class JobOperator(python_executor_operator.PythonExecutorOperator):
    """Runs an executor in the workers of a TFJob, see `worker_pods.worker_job`, not here."""

    def __init__(self, *, job: Mapping[str, Any], **more: Any) -> None:
        super().__init__(**more)
        self._job = job

    def run_executor(
        self, execution_info: data_types.ExecutionInfo
    ) -> execution_result_pb2.ExecutorOutput:
        """Start the workers, wait for them, and give what the chief left."""
        folder = posixpath.dirname(execution_info.execution_output_uri)
        invocation = posixpath.join(folder, "invocation.pb")
        with fileio.open(invocation, "wb") as file:
            file.write(execution_info.to_proto().SerializeToString())
        config.load_incluster_config()
        jobs = WorkerJobs(client.ApiClient(), (_ACCOUNT / "namespace").read_text().strip())
        executor = self._executor_spec.class_path
        jobs.run(self._job, socket.gethostname(), [invocation, executor])
        with fileio.open(execution_info.execution_output_uri, "rb") as file:
            return execution_result_pb2.ExecutorOutput.FromString(file.read())


def work(invocation: str, executor: str) -> None:
    """Be one of the workers: run an executor's class on TFX's ExecutionInvocation in a file."""
    workers = join_workers()
    is_chief = workers is None or workers.is_chief
    with fileio.open(invocation, "rb") as file:
        proto = execution_invocation_pb2.ExecutionInvocation.FromString(file.read())
    info = data_types.ExecutionInfo.from_proto(proto)
    context = base_executor.BaseExecutor.Context(
        tmp_dir=info.tmp_dir,
        unique_id=str(info.execution_id),
        executor_output_uri=info.execution_output_uri,
        stateful_working_dir=info.stateful_working_dir,
        pipeline_node=info.pipeline_node,
        pipeline_info=info.pipeline_info,
        pipeline_run_id=info.pipeline_run_id,
    )
    made = import_utils.import_class_by_path(executor)(context=context)
    try:
        result = python_executor_operator.run_with_executor(info, made)
    except RuntimeError as error:
        # TFX looks for the model when run_fn is over: of the chief, who may still be exporting.
        if is_chief or "failed to generate model" not in str(error):
            raise
        return
    if is_chief:
        with fileio.open(info.execution_output_uri, "wb") as file:
            file.write(result.SerializeToString())


class WorkerJobs:
    """TFJobs of a namespace, that of the node's pod."""

    def __init__(self, api: client.ApiClient, namespace: str) -> None:
        self._jobs = client.CustomObjectsApi(api)
        self._core = client.CoreV1Api(api)
        self._namespace = namespace
        self._printed: dict[str, str] = {}  # by pod, the time of the last line

    def run(self, job: Mapping[str, Any], pod: str, arguments: list[str]) -> None:
        """Start a job, print what its workers print, wait for its end, and remove it.

        Args:
            job: Of `worker_pods.worker_job`.
            pod: The pod that owns it: this one.
            arguments: Of each worker's command.

        Raises:
            DataError: It failed, or is gone.
            UsageError: The cluster knows no TFJob, or this pod may not make one.
        """
        with _api_errors():
            owner = self._core.read_namespaced_pod(pod, self._namespace)
            body = _owned(job, owner, arguments)
            name = body["metadata"]["name"]
            self._jobs.create_namespaced_custom_object(*_KIND, self._namespace, "tfjobs", body=body)
        replicas = body["spec"]["tfReplicaSpecs"]["Worker"]["replicas"]
        pods = [f"{name}-worker-{index}" for index in range(replicas)]
        print(f"TFJob {name}: {replicas} workers", flush=True)
        try:
            self._watch(name, pods)
        finally:
            with suppress(client.ApiException, HTTPError):
                self._jobs.delete_namespaced_custom_object(
                    *_KIND, self._namespace, "tfjobs", name, propagation_policy="Background"
                )

    def _watch(self, name: str, pods: list[str]) -> None:
        heard = time.monotonic()
        while True:
            try:
                found = self._jobs.get_namespaced_custom_object(
                    *_KIND, self._namespace, "tfjobs", name
                )
                for pod in pods:
                    self._print(pod)
                heard = time.monotonic()
            except (client.ApiException, HTTPError) as error:
                if getattr(error, "status", None) == 404:
                    raise DataError(f"TFJob {name} was removed by another; run again") from error
                if time.monotonic() - heard > _API_PATIENCE_SECONDS:
                    raise DataError(f"TFJob {name}: Kubernetes does not answer: {error}") from error
                found = {}
            conditions = found.get("status", {}).get("conditions") or []
            ended = {one["type"]: one for one in conditions if one["status"] == "True"}
            if "Succeeded" in ended:
                return
            if "Failed" in ended:
                reason = ended["Failed"].get("message", "")
                raise DataError(f"TFJob {name} failed: {reason} See the workers' lines above")
            time.sleep(_POLL_SECONDS)

    def _print(self, pod: str) -> None:
        """What a worker printed since the last time; nothing of one that is not there yet."""
        last = self._printed.get(pod, "")
        try:
            # Whole seconds alone can be asked for: with a second's lines to pass over again.
            text = self._core.read_namespaced_pod_log(
                pod, self._namespace, timestamps=True, since_seconds=_since(last)
            )
        except client.ApiException as error:
            if error.status in (400, 404):  # waiting to begin, or between two tries
                return
            raise
        for line in text.splitlines():
            at, _, words = line.partition(" ")
            if at > last:
                print(f"{pod}: {words}", flush=True)
                self._printed[pod] = at


def _since(last: str) -> int | None:
    """Seconds since a line of a log, rounded up with room for clocks that differ."""
    if not last:
        return None
    at = calendar.timegm(time.strptime(last[:19], "%Y-%m-%dT%H:%M:%S"))
    return max(1, int(time.time() - at) + 60)


def _owned(job: Mapping[str, Any], owner: Any, arguments: list[str]) -> dict[str, Any]:
    """The job with all that only its run knows."""
    body = copy.deepcopy(dict(job))
    reference = {
        "apiVersion": "v1",
        "kind": "Pod",
        "name": owner.metadata.name,
        "uid": owner.metadata.uid,
    }
    # Its pods are called by it, and must stay below 63 letters.
    name = f"penstock-{owner.metadata.uid}"
    body["metadata"] = {"name": name, "ownerReferences": [reference]}
    spec = body["spec"]["tfReplicaSpecs"]["Worker"]["template"]["spec"]
    # A bucket is opened to the account of the runs.
    spec["serviceAccountName"] = owner.spec.service_account_name
    spec["containers"][0]["args"] = arguments
    return body


@contextmanager
def _api_errors() -> Iterator[None]:
    try:
        yield
    except client.ApiException as error:
        if error.status == 404:
            raise UsageError(
                "the cluster knows no TFJob: install Kubeflow's Training Operator, version 1, or "
                "leave workers out of the placement"
            ) from error
        if error.status == 403:
            raise UsageError(
                "this pod may not make a TFJob: add k8s/components/workers to the kustomization"
            ) from error
        raise PenstockError(f"Kubernetes refuses the TFJob: {error.reason} {error.body}") from error
