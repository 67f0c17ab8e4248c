"""Runs the Trainer on several workers: starts their JobSet, watches it, and deletes it.

    node's pod    runs the TFX driver, writes metadata, manages the JobSet; needs no accelerator
    workers       run the node's executor on the invocation that the node writes below the pipeline
                  root; the chief writes TFX's executor output there, as TFX's remote executors do

The node's pod owns the JobSet (made by `pod.worker_job`), so Kubernetes deletes it with the pod.
But a failed pod, for example an evicted one, is not deleted, and its JobSet stays. So the next
attempt of the run deletes the old JobSet, which it finds because all attempts use the same name.
"""

import copy
import hashlib
import json
import os
import posixpath
import socket
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from kubernetes import client, config
from tfx.dsl.io import fileio
from tfx.orchestration.portable import data_types, python_executor_operator
from tfx.proto.orchestration import (
    executable_spec_pb2,
    execution_invocation_pb2,
    execution_result_pb2,
)
from urllib3.exceptions import HTTPError

from penstock.components.errors import DataError, PenstockError, UsageError
from penstock.components.trainer.workers import join_workers

_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_POLL_SECONDS = 5.0
# Timeout for an API that does not answer, for example during an upgrade of the control plane, and
# for the deletion of an earlier attempt's JobSet.
_API_TIMEOUT_SECONDS = 300.0
_LAST_LINES = 100
_NO_RIGHTS = (
    "this pod may not create and watch a JobSet: add k8s/components/workers to your kustomization, "
    "and apply it"
)


class JobOperator(python_executor_operator.PythonExecutorOperator):
    """Runs an executor in the workers of a job made by `pod.worker_job`."""

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
        # The host name is the pod's name cut to 63 characters; KFP passes the full name.
        pod = os.environ.get("KFP_POD_NAME") or socket.gethostname()
        jobs.run(self._job, _job_name(execution_info), pod, [invocation, executor])
        with fileio.open(execution_info.execution_output_uri, "rb") as file:
            return execution_result_pb2.ExecutorOutput.FromString(file.read())


def work(invocation: str, executor: str, addresses: Sequence[str]) -> None:
    """Runs an executor as one worker, on the invocation in a file; addresses are `host:port`."""
    task = {"type": "worker", "index": int(os.environ["JOB_COMPLETION_INDEX"])}
    os.environ["TF_CONFIG"] = json.dumps({"cluster": {"worker": list(addresses)}, "task": task})
    workers = join_workers()
    is_chief = workers is None or workers.is_chief
    with fileio.open(invocation, "rb") as file:
        proto = execution_invocation_pb2.ExecutionInvocation.FromString(file.read())
    info = data_types.ExecutionInfo.from_proto(proto)
    spec = executable_spec_pb2.PythonClassExecutableSpec(class_path=executor)
    try:
        result = python_executor_operator.PythonExecutorOperator(spec).run_executor(info)
    except RuntimeError as error:
        # After run_fn, TFX checks that the model exists, but the chief may still be exporting it.
        if is_chief or "failed to generate model" not in str(error):
            raise
        return
    if is_chief:
        with fileio.open(info.execution_output_uri, "wb") as file:
            file.write(result.SerializeToString())


class WorkerJobs:
    """The JobSet of a node's workers, in the namespace of the node's own pod."""

    def __init__(self, api: client.ApiClient, namespace: str) -> None:
        self._jobs = client.CustomObjectsApi(api)
        self._core = client.CoreV1Api(api)
        self._namespace = namespace
        self._read: set[str] = set()  # printed events, uids of reported pods

    def run(self, job: Mapping[str, Any], name: str, pod: str, arguments: list[str]) -> None:
        """Starts a JobSet, waits for its end, prints the last lines of its pods, and deletes it.

        A JobSet of the same name belongs to an earlier attempt and is deleted first. The pod named
        `pod` becomes the owner of the new JobSet.
        """
        group, version = job["apiVersion"].split("/")
        self._place = (group, version, self._namespace, "jobsets")
        with _api_errors():
            owner = self._core.read_namespaced_pod(pod, self._namespace)
            body = _owned(job, name, owner, arguments, self._namespace)
            uid = self._create(body)
            workers = _job_of(body)["completions"]
            follow = f"kubectl logs -f -l {_label(name)}"
            print(f"JobSet {name}: {workers} workers; {follow} follows them", flush=True)
            try:
                self._watch(name, uid)
            finally:
                with suppress(client.ApiException, HTTPError):
                    self._delete(name, uid)

    def _create(self, body: Mapping[str, Any]) -> str:
        name = body["metadata"]["name"]
        until = time.monotonic() + _API_TIMEOUT_SECONDS
        while time.monotonic() < until:
            if not self._pods(name):
                with _ignoring(409):
                    made = self._jobs.create_namespaced_custom_object(*self._place, body=body)
                    return str(made["metadata"]["uid"])
            with _ignoring(404):
                self._delete(name)
            time.sleep(_POLL_SECONDS)
        raise DataError(
            f"JobSet {name} of an earlier attempt, or a pod of it, is still there: delete it, and "
            "run again"
        )

    def _delete(self, name: str, uid: str | None = None) -> None:
        options = client.V1DeleteOptions(
            propagation_policy="Background", preconditions=client.V1Preconditions(uid=uid)
        )
        self._jobs.delete_namespaced_custom_object(*self._place, name, body=options)

    def _pods(self, name: str) -> list[Any]:
        return list(
            self._core.list_namespaced_pod(self._namespace, label_selector=_label(name)).items
        )

    def _watch(self, name: str, uid: str) -> None:
        heard = time.monotonic()
        while True:
            try:
                true = self._conditions(name, uid)
                heard = time.monotonic()
            except (client.ApiException, HTTPError) as error:
                if getattr(error, "status", None) == 403:
                    raise
                if time.monotonic() - heard > _API_TIMEOUT_SECONDS:
                    text = f"JobSet {name}: Kubernetes does not answer: {error}"
                    raise DataError(text) from error
                true = {}
            if "Failed" in true:
                why = true["Failed"].get("message", "")
                raise DataError(f"JobSet {name} failed: {why} See the workers' lines above")
            if "Completed" in true:
                return
            time.sleep(_POLL_SECONDS)

    def _conditions(self, name: str, uid: str) -> dict[str, Any]:
        """Returns the JobSet's conditions that are true; prints the last lines of ended pods."""
        found: Any = {}
        with _ignoring(404):
            found = self._jobs.get_namespaced_custom_object(*self._place, name)
        if not found or found["metadata"]["uid"] != uid:
            raise DataError(f"JobSet {name} was deleted by someone else; run again")
        for pod in self._pods(name):
            if pod.status.phase in ("Failed", "Succeeded") and pod.metadata.uid not in self._read:
                self._read.add(pod.metadata.uid)
                self._print_end(pod.metadata.name)
        self._print_events(name)
        conditions = found.get("status", {}).get("conditions") or []
        return {one["type"]: one for one in conditions if one["status"] == "True"}

    def _print_events(self, name: str) -> None:
        """Prints events that say why pods are not created, for example because of a quota.

        The log keeps these events, which Kubernetes by default deletes after an hour.
        """
        selector = f"involvedObject.kind=Job,involvedObject.name={name}-worker-0,type=Warning"
        events = self._core.list_namespaced_event(self._namespace, field_selector=selector)
        for line in (" ".join((event.message or "").split()) for event in events.items):
            if line not in self._read:
                self._read.add(line)
                print(line, flush=True)

    def _print_end(self, pod: str) -> None:
        with suppress(client.ApiException, HTTPError):
            text = self._core.read_namespaced_pod_log(pod, self._namespace, tail_lines=_LAST_LINES)
            for line in text.splitlines():
                print(f"{pod}: {line}", flush=True)


def _job_name(execution_info: data_types.ExecutionInfo) -> str:
    # The path without the id of the execution, which differs between the attempts of a run; all of
    # them need the same job name.
    tries = posixpath.dirname(posixpath.dirname(execution_info.execution_output_uri))
    key = f"{tries} {execution_info.pipeline_run_id}"
    # The names of the JobSet's pods begin with this name and may have at most 63 characters.
    return f"penstock-{hashlib.sha256(key.encode()).hexdigest()[:32]}"


def _label(name: str) -> str:
    return f"jobset.sigs.k8s.io/jobset-name={name}"


def _job_of(jobset: Mapping[str, Any]) -> Any:
    [replicated] = jobset["spec"]["replicatedJobs"]
    return replicated["template"]["spec"]


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
    spec = _job_of(body)["template"]["spec"]
    # The workers get the service account of the node's pod, and with it, for example, access to a
    # bucket.
    spec["serviceAccountName"] = owner.spec.service_account_name
    port = spec["containers"][0]["ports"][0]["containerPort"]
    # The host names that JobSet's headless service assigns.
    hosts = [
        f"{name}-worker-0-{index}.{name}.{namespace}.svc:{port}"
        for index in range(_job_of(body)["completions"])
    ]
    spec["containers"][0]["args"] = [*arguments, *hosts]
    return body


@contextmanager
def _ignoring(status: int) -> Iterator[None]:
    try:
        yield
    except client.ApiException as error:
        if error.status != status:
            raise


@contextmanager
def _api_errors() -> Iterator[None]:
    try:
        yield
    except client.ApiException as error:
        if error.status == 404:
            raise UsageError(
                "the cluster has no JobSets: install JobSet, or leave workers out of the placement"
            ) from error
        if error.status == 403:
            raise UsageError(_NO_RIGHTS) from error
        why = error.reason
        with suppress(ValueError, KeyError, TypeError):
            why = json.loads(error.body)["message"]
        raise PenstockError(f"Kubernetes rejects the JobSet: {why}") from error
