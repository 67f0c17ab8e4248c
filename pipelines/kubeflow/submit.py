"""Starts runs of compiled pipelines on a Kubeflow Pipelines server, through kfp's own client.

Input: a compiled file and values of its parameters. Output: the run's id; with `wait`, stderr shows
the state of each node, and why its pod waits or failed.
"""

import hashlib
import json
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any

import kfp
from kubernetes import client, config
from urllib3.exceptions import HTTPError

from penstock.components.errors import DataError
from penstock.pipelines.kubeflow.compiled_file import CompiledFile, read_compiled_file
from penstock.pipelines.kubeflow.server import connect, load_cluster_config, server_errors
from penstock.pipelines.runs.spans import run_spans
from penstock.pipelines.terminal.tables import console

_FINAL = ("SUCCEEDED", "FAILED", "SKIPPED", "CANCELED")
_SECONDS_BETWEEN_POLLS = 5.0
# The server may restart during a run that takes hours, so only this many failed polls in a row end
# the wait.
_MAX_FAILED_POLLS = 10
# Pods that start normally are ready within a minute.
_PATIENCE_SECONDS = 60.0
_KUBERNETES_SECONDS = 10
# Reasons that Argo reports for a waiting pod that starts normally.
_STARTING = ("PodInitializing", "ContainerCreating")


def submit(
    path: Path,
    *,
    host: str,
    experiment: str,
    name: str | None,
    parameters: Sequence[str],
    namespace: str | None,
    service_account: str | None,
    wait: bool = False,
) -> str:
    """Starts a run of a compiled pipeline and returns its id."""
    file = read_compiled_file(path)
    arguments = file.arguments(parameters)
    server = connect(host, namespace)
    with server_errors(host):
        made = server.create_run_from_pipeline_package(
            str(path),
            arguments,
            run_name=name or f"{file.name} {datetime.now():%Y-%m-%d %H:%M:%S}",
            experiment_name=experiment,
            namespace=namespace,
            service_account=service_account,
        )
    run_id = str(made.run_id)
    console(stderr=True).print(f"run {run_id}: {host.rstrip('/')}/#/runs/details/{run_id}")
    if wait:
        _follow(server, host, namespace or "kubeflow", run_id, file)
    return run_id


def submit_spans(
    path: Path, spans: range, *, name: str | None, parameters: Sequence[str], **options: Any
) -> str:
    """Starts one run per span, in order, each after the one before has succeeded; see `submit`.

    In a range of several spans, those at the beginning that already have a successful run are
    skipped. A run's name contains a digest of the file and the parameters, because the server
    cannot search for runs by their file and parameters.

    Returns:
        Ids of the runs, one per line.

    Raises:
        DataError: A run failed; runs of later spans are not started.
    """
    digest = hashlib.sha256(repr((path.read_bytes(), sorted(parameters))).encode()).hexdigest()[:8]
    names = {s: f"{name or read_compiled_file(path).name} span {s} {digest}" for s in spans}
    started: list[str] = []

    def start(span: int) -> None:
        given = [*parameters, f"span={span}"]
        more = {**options, "wait": True}
        started.append(submit(path, name=names[span], parameters=given, **more))

    say = console(stderr=True).print
    run_spans(spans, start, lambda span: _succeeded(names[span], **options), say)
    return "\n".join(started)


def _succeeded(name: str, *, host: str, experiment: str, namespace: str | None, **_: Any) -> str:
    """Returns the id of a successful run with this name; empty if there is none."""
    server = connect(host, namespace)
    same = {"operation": "EQUALS", "key": "display_name", "stringValue": name}
    with server_errors(host):
        group = server.create_experiment(experiment, namespace=namespace)
        found = server.list_runs(
            experiment_id=group.experiment_id,
            page_size=100,
            filter=json.dumps({"predicates": [same]}),
        )
    good = [run for run in found.runs or () if (run.display_name, run.state) == (name, "SUCCEEDED")]
    return str(good[0].run_id) if good else ""


def _follow(server: kfp.Client, host: str, namespace: str, run_id: str, file: CompiledFile) -> None:
    say = console(stderr=True).print
    shown: dict[str, str] = {}
    told: set[tuple[str, str]] = set()
    changed = time.monotonic()
    while True:
        run = _poll(server, host, run_id)
        for node, detail in _details(run, file).items():
            if detail.state and shown.get(node) != detail.state:
                say(f"{datetime.now():%H:%M:%S} {node}: {detail.state.lower()}")
                shown[node], changed = detail.state, time.monotonic()
        if run.state in _FINAL:
            break
        if time.monotonic() - changed > _PATIENCE_SECONDS:
            changed = time.monotonic()
            waits = {*_messages(namespace, run_id, file.tasks, "Pending")} - told
            told |= waits  # each reason once: ErrImagePull and ImagePullBackOff alternate
            for node, reason in sorted(waits):
                if not reason.startswith(_STARTING):
                    say(f"{datetime.now():%H:%M:%S} {node} waits: {reason}")
        time.sleep(_SECONDS_BETWEEN_POLLS)
    if run.state != "SUCCEEDED":
        said = dict(_messages(namespace, run_id, file.tasks, "Failed", "Error"))
        raise DataError(f"run {run_id} {run.state.lower()}{_why(run, file, said)}")
    say(f"run {run_id} succeeded")


def _poll(server: kfp.Client, host: str, run_id: str) -> Any:
    for tries_left in reversed(range(_MAX_FAILED_POLLS)):
        try:
            with server_errors(host):
                return server.get_run(run_id)
        except DataError:
            if not tries_left:
                raise
            time.sleep(_SECONDS_BETWEEN_POLLS)


def _why(run: Any, file: CompiledFile, messages: Mapping[str, str]) -> str:
    reasons = []
    for node, detail in _details(run, file).items():
        if detail.state == "FAILED":
            message = messages.get(node) or getattr(detail.error, "message", None)
            reasons.append(node + (f" ({message})" if message else ""))
    if reasons:
        return f": {', '.join(reasons)}; the log of its pod says why"
    message = getattr(run.error, "message", None)
    return f": {' '.join(str(message).split())}" if message else ""


def _details(run: Any, file: CompiledFile) -> dict[str, Any]:
    details = getattr(run.run_details, "task_details", None) or []
    return {file.tasks[one.display_name]: one for one in details if one.display_name in file.tasks}


def _messages(
    namespace: str, run_id: str, tasks: Mapping[str, str], *phases: str
) -> Iterator[tuple[str, str]]:
    """Yields (node, message) of the run's pods that are in one of Argo's `phases`.

    Argo's message says why the pod waits or failed. Yields nothing if the caller may not list
    workflows in the namespace.
    """
    workflows: list[Any] = []
    with suppress(config.ConfigException, client.ApiException, HTTPError):
        load_cluster_config()
        workflows = client.CustomObjectsApi().list_namespaced_custom_object(
            *("argoproj.io", "v1alpha1", namespace, "workflows"),
            label_selector=f"pipeline/runid={run_id}",
            _request_timeout=_KUBERNETES_SECONDS,
        )["items"]
    for workflow in workflows:
        for pod in workflow.get("status", {}).get("nodes", {}).values():
            if pod.get("type") == "Pod" and pod.get("phase") in phases and pod.get("message"):
                owner = _task_of(pod, tasks)
                yield tasks.get(owner, owner), " ".join(pod["message"].split())


def _task_of(pod: Mapping[str, Any], tasks: Mapping[str, str]) -> str:
    """Returns the KFP task of a pod, from its name in Argo: `RUN.root.trainer.executor(0)`.

    If a task may be retried, each part ends with the number of its attempt:
    `RUN(0).root(0).trainer(1)...`.
    """
    parts = re.sub(r"\(\d+\)", "", pod["name"]).split(".")
    owners = [part.removesuffix("-driver") for part in parts]
    return next((owner for owner in reversed(owners) if owner in tasks), parts[-1])
