"""Runs the Trainer on several workers: starts their job, watches it, and deletes it.

    node's pod    the TFX node: driver, metadata, the job and its logs; needs no accelerator
    workers       run the node's executor on the invocation that the node writes below the pipeline
                  root; the chief writes TFX's executor output there, as TFX's remote executors do

The job is a TFJob or a JobSet, see `pod.worker_job`. The node's pod owns the job, so Kubernetes
deletes the job with the pod. A failed pod, for example an evicted one, is not deleted; so the job
has the same name in each attempt of a run, and the next attempt deletes the old job.
"""

import copy
import hashlib
import json
import math
import os
import posixpath
import socket
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

from kubernetes import client, config
from tfx.dsl.components.base import base_executor
from tfx.dsl.io import fileio
from tfx.orchestration.portable import data_types, python_executor_operator
from tfx.proto.orchestration import execution_invocation_pb2, execution_result_pb2
from tfx.utils import import_utils
from urllib3.exceptions import HTTPError

from penstock.components.errors import DataError, PenstockError, UsageError
from penstock.components.trainer.workers import join_workers


class _Kind(NamedTuple):
    """A kind of job: its API path, and the labels, hosts and conditions of its controller."""

    plural: str
    pod_label: str
    done: str  # condition of a successful job
    host: str  # host name of a worker
    events: str  # selects events that say why pods are not created
    missing: str

    def template(self, job: Mapping[str, Any]) -> tuple[int, Any]:
        """Returns the number of workers and their pod template."""
        if self.plural == "tfjobs":
            worker = job["spec"]["tfReplicaSpecs"]["Worker"]
            return worker["replicas"], worker["template"]
        [replicated] = job["spec"]["replicatedJobs"]
        spec = replicated["template"]["spec"]
        return spec["completions"], spec["template"]

    def most_pods(self, job: Mapping[str, Any]) -> float:
        """Returns the number of created pods above which a TFJob has failed; no limit for a JobSet.

        The training operator counts only restarts of containers inside a pod. Containers of a TFJob
        never restart, so the operator would create new pods for ever.
        """
        if self.plural != "tfjobs":
            return math.inf
        return self.template(job)[0] + int(job["spec"]["runPolicy"]["backoffLimit"])


_KINDS = {
    "TFJob": _Kind(
        plural="tfjobs",
        pod_label="training.kubeflow.org/job-name",
        done="Succeeded",
        host="{name}-worker-{index}.{namespace}.svc",
        events="involvedObject.uid={uid}",
        missing="install Kubeflow's Training Operator, version 1, or set worker_kind: JobSet",
    ),
    "JobSet": _Kind(
        plural="jobsets",
        pod_label="jobset.sigs.k8s.io/jobset-name",
        done="Completed",
        host="{name}-worker-0-{index}.{name}.{namespace}.svc",
        events="involvedObject.kind=Job,involvedObject.name={name}-worker-0",
        missing="install JobSet, or set worker_kind: TFJob",
    ),
}
_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_POLL_SECONDS = 5.0
# Timeout for an API that does not answer, as during an upgrade of the control plane. A log
# connection that is silent for so long is opened again: load balancers drop idle connections.
_API_TIMEOUT_SECONDS = 300.0
# Time to read the last lines of all workers after the job's end; the pods hold their GPUs until
# then.
_LAST_LINES_SECONDS = 10.0
_NO_RIGHTS = (
    "this pod may not create and watch a {}: add k8s/components/workers to your kustomization, "
    "and apply it"
)


class JobOperator(python_executor_operator.PythonExecutorOperator):
    """Runs an executor in the workers of a job, see `pod.worker_job`."""

    def __init__(self, *, job: Mapping[str, Any], **more: Any) -> None:
        super().__init__(**more)
        self._job = job

    def run_executor(
        self, execution_info: data_types.ExecutionInfo
    ) -> execution_result_pb2.ExecutorOutput:
        """Starts the workers, waits for them, and returns the chief's output."""
        folder = posixpath.dirname(execution_info.execution_output_uri)
        invocation = posixpath.join(folder, "invocation.pb")
        with fileio.open(invocation, "wb") as file:
            file.write(execution_info.to_proto().SerializeToString())
        config.load_incluster_config()
        jobs = WorkerJobs(client.ApiClient(), (_ACCOUNT / "namespace").read_text().strip())
        executor = self._executor_spec.class_path
        # The host name is the pod's name cut to 63 letters; KFP passes the full name.
        pod = os.environ.get("KFP_POD_NAME") or socket.gethostname()
        jobs.run(self._job, _job_name(execution_info), pod, [invocation, executor])
        with fileio.open(execution_info.execution_output_uri, "rb") as file:
            return execution_result_pb2.ExecutorOutput.FromString(file.read())


def work(invocation: str, executor: str, addresses: Sequence[str]) -> None:
    """Runs an executor as one worker, on the invocation in a file; addresses are `host:port`."""
    index = os.environ.get("JOB_COMPLETION_INDEX")  # set in an indexed Job
    task = (
        {"type": "worker", "index": int(index)}
        if index is not None
        else json.loads(os.environ["TF_CONFIG"])["task"]
    )
    os.environ["TF_CONFIG"] = json.dumps({"cluster": {"worker": list(addresses)}, "task": task})
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
        # After run_fn TFX checks that the model exists, which the chief may still be exporting.
        if is_chief or "failed to generate model" not in str(error):
            raise
        return
    if is_chief:
        with fileio.open(info.execution_output_uri, "wb") as file:
            file.write(result.SerializeToString())


class WorkerJobs:
    """The job of a node's workers, in the namespace of its pod."""

    def __init__(self, api: client.ApiClient, namespace: str) -> None:
        self._jobs = client.CustomObjectsApi(api)
        self._core = client.CoreV1Api(api)
        self._namespace = namespace
        self._readers: dict[str, threading.Thread] = {}  # by pod uid
        self._printed: dict[str, str] = {}  # time of the last line by pod uid
        self._read: set[str] = set()  # uids of pods whose log was read to its end
        self._said: set[str] = set()

    def run(self, job: Mapping[str, Any], name: str, pod: str, arguments: list[str]) -> None:
        """Starts a job, prints the lines of its workers, waits for its end, and deletes it.

        A job of the same name belongs to an earlier attempt and is deleted first. `pod` owns the
        job.
        """
        self._kind = kind = _KINDS[job["kind"]]
        group, version = job["apiVersion"].split("/")
        self._place = (group, version, self._namespace, kind.plural)
        self._title = f"{job['kind']} {name}"
        with _api_errors(job["kind"], kind):
            owner = self._core.read_namespaced_pod(pod, self._namespace)
            body = _owned(job, name, owner, arguments, self._namespace)
            uid = self._create(body)
        self._say(f"{self._title}: {kind.template(body)[0]} workers")
        try:
            self._watch(name, uid, kind.most_pods(body))
        finally:
            with suppress(client.ApiException, HTTPError):
                self._delete(name, uid)

    def _create(self, body: Mapping[str, Any]) -> str:
        name = body["metadata"]["name"]
        until = time.monotonic() + _API_TIMEOUT_SECONDS
        while time.monotonic() < until:
            if not self._pods(name):
                try:
                    made = self._jobs.create_namespaced_custom_object(*self._place, body=body)
                    return str(made["metadata"]["uid"])
                except client.ApiException as error:
                    if error.status != 409:
                        raise
            self._say(f"{self._title} of an earlier attempt is deleted first")
            try:
                self._delete(name)
            except client.ApiException as error:
                if error.status != 404:
                    raise
            time.sleep(_POLL_SECONDS)
        raise DataError(
            f"{self._title} of an earlier attempt, or a pod of it, is still there: delete it, and "
            "run again"
        )

    def _delete(self, name: str, uid: str | None = None) -> None:
        options = client.V1DeleteOptions(
            propagation_policy="Background", preconditions=client.V1Preconditions(uid=uid)
        )
        self._jobs.delete_namespaced_custom_object(*self._place, name, body=options)

    def _pods(self, name: str) -> list[Any]:
        pods = self._core.list_namespaced_pod(
            self._namespace, label_selector=f"{self._kind.pod_label}={name}"
        )
        return list(pods.items)

    def _watch(self, name: str, uid: str, most_pods: float) -> None:
        """Waits for a job's end; pods that a suspension ended do not count as retries."""
        heard, spared = time.monotonic(), 0
        while True:
            try:
                found = self._jobs.get_namespaced_custom_object(*self._place, name)
                if found["metadata"]["uid"] != uid:
                    raise client.ApiException(404)
                self._read_pods(name)
                self._print_events(name, uid)
                heard = time.monotonic()
            except (client.ApiException, HTTPError) as error:
                if getattr(error, "status", None) == 404:
                    raise DataError(
                        f"{self._title} was deleted by someone else; run again"
                    ) from error
                if getattr(error, "status", None) == 403:
                    raise UsageError(_NO_RIGHTS.format(self._title.split()[0])) from error
                if time.monotonic() - heard > _API_TIMEOUT_SECONDS:
                    raise DataError(
                        f"{self._title}: Kubernetes does not answer: {error}"
                    ) from error
                found = {}
            conditions = found.get("status", {}).get("conditions") or []
            true = {one["type"]: one for one in conditions if one["status"] == "True"}
            if "Suspended" in true:
                self._say(f"{self._title} is suspended, and continues when it is resumed")
                spared = len(self._readers)
            why = true["Failed"].get("message", "") if "Failed" in true else ""
            if (made := len(self._readers) - spared) > most_pods:
                why = f"its pods were created {made} times, `retry` allows {most_pods:.0f}."
            if why or self._kind.done in true:
                self._await_last_lines()
            if why:
                raise DataError(f"{self._title} failed: {why} See the workers' lines above")
            if self._kind.done in true:
                return
            time.sleep(_POLL_SECONDS)

    def _read_pods(self, name: str) -> None:
        """Reads the logs of pods that have started, and reopens logs whose connection broke."""
        for pod in self._pods(name):
            uid, phase = pod.metadata.uid, pod.status.phase
            reader = self._readers.get(uid)
            # A pod that has ended may have lines that came after its connection broke.
            is_read = uid in self._read and phase != "Running"
            if phase == "Pending" or is_read or (reader and reader.is_alive()):
                continue
            arguments = (pod.metadata.name, uid)
            self._readers[uid] = threading.Thread(target=self._print, args=arguments, daemon=True)
            self._readers[uid].start()

    def _print(self, pod: str, uid: str) -> None:
        """Prints a worker's lines as they come, until the pod or the connection ends.

        Reading them at the end would be too late: the operator deletes a pod as soon as it has
        failed.
        """
        with suppress(client.ApiException, HTTPError):
            lines = self._core.read_namespaced_pod_log(
                pod,
                self._namespace,
                follow=True,
                timestamps=True,
                _preload_content=False,
                _request_timeout=(10.0, _API_TIMEOUT_SECONDS),
            )
            for line in lines:
                at, _, words = line.decode(errors="replace").rstrip().partition(" ")
                if at > self._printed.get(uid, ""):
                    self._printed[uid] = at
                    print(f"{pod}: {words}\n", end="", flush=True)
            self._read.add(uid)

    def _await_last_lines(self) -> None:
        until = time.monotonic() + _LAST_LINES_SECONDS
        for reader in self._readers.values():
            reader.join(max(0.0, until - time.monotonic()))

    def _print_events(self, name: str, uid: str) -> None:
        events = self._core.list_namespaced_event(
            self._namespace, field_selector=self._kind.events.format(name=name, uid=uid)
        )
        for event in events.items:
            if event.type == "Warning" or event.reason == "ExitedWithCode":
                self._say(" ".join((event.message or "").split()))

    def _say(self, line: str) -> None:
        if line not in self._said:
            self._said.add(line)
            print(line, flush=True)


def _job_name(execution_info: data_types.ExecutionInfo) -> str:
    # Each attempt has its own execution, but all attempts of a run need the same job name.
    tries = posixpath.dirname(posixpath.dirname(execution_info.execution_output_uri))
    key = f"{tries} {execution_info.pipeline_run_id}"
    # Names of the job's pods begin with this name, and must stay below 63 letters.
    return f"penstock-{hashlib.sha256(key.encode()).hexdigest()[:32]}"


def _owned(
    job: Mapping[str, Any], name: str, owner: Any, arguments: list[str], namespace: str
) -> dict[str, Any]:
    body = copy.deepcopy(dict(job))
    reference = {
        "apiVersion": "v1",
        "kind": "Pod",
        "name": owner.metadata.name,
        "uid": owner.metadata.uid,
    }
    body["metadata"] = {**body.get("metadata", {}), "name": name, "ownerReferences": [reference]}
    kind = _KINDS[job["kind"]]
    replicas, template = kind.template(body)
    spec = template["spec"]
    # The workers need the account of the runs, which has the rights on the bucket.
    spec["serviceAccountName"] = owner.spec.service_account_name
    port = spec["containers"][0]["ports"][0]["containerPort"]
    hosts = [kind.host.format(name=name, index=i, namespace=namespace) for i in range(replicas)]
    spec["containers"][0]["args"] = [*arguments, *(f"{host}:{port}" for host in hosts)]
    return body


@contextmanager
def _api_errors(name: str, kind: _Kind) -> Iterator[None]:
    try:
        yield
    except client.ApiException as error:
        if error.status == 404:
            raise UsageError(
                f"the cluster has no {name}s: {kind.missing}, or leave workers out of the placement"
            ) from error
        if error.status == 403:
            raise UsageError(_NO_RIGHTS.format(name)) from error
        why = error.reason
        with suppress(ValueError, KeyError, TypeError):
            why = json.loads(error.body)["message"]
        raise PenstockError(f"Kubernetes rejects the {name}: {why}") from error
