"""The work of `penstock submit`: start a run, and follow it by node."""

import time
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import kfp
from rich.console import Console

from penstock.components.errors import DataError, UsageError
from penstock.pipelines.kubeflow.plan import SPAN_FROM
from penstock.pipelines.kubeflow.server import connect, server_errors
from penstock.pipelines.kubeflow.submitted_file import KubeflowFile, read_kubeflow_file
from penstock.pipelines.terminal.tables import console

_FINAL = ("SUCCEEDED", "FAILED", "SKIPPED", "CANCELED")
# A server may restart while a run goes on for hours.
_MAX_FAILED_POLLS = 10
# As Argo shows the tries of a node that has a retry strategy.
_FIRST_TRY, _SECOND_TRY = "executor(0)", "executor(1)"


def submit(
    path: Path,
    *,
    host: str,
    experiment: str,
    name: str | None,
    parameters: Sequence[str],
    namespace: str | None,
    service_account: str | None,
    wait: bool,
    seconds_between_polls: float,
) -> str:
    """Start a run of a compiled pipeline, by the flags of `penstock submit`; gives its id.

    Raises:
        DataError: There is no server, it refuses, or the run that is waited for failed.
        UsageError: A parameter does not fit.
    """
    told = console(stderr=True)
    file = read_kubeflow_file(path)
    arguments = file.arguments(parameters)
    client = connect(host, namespace)
    with server_errors(host):
        run = client.run_pipeline(
            experiment_id=client.create_experiment(experiment, namespace=namespace).experiment_id,
            job_name=name or f"{file.name} {datetime.now():%Y-%m-%d %H:%M:%S}",
            pipeline_package_path=str(path),
            params=arguments,
            service_account=service_account,
        )
    told.print(f"run {run.run_id}: {host.rstrip('/')}/#/runs/details/{run.run_id}")
    if wait:
        _follow(client, host, str(run.run_id), file, told, seconds_between_polls)
    return str(run.run_id)


def span_parameter(path: Path, address: str) -> str:
    """`--span-from` as a parameter of a compiled pipeline.

    Raises:
        DataError: The file is no compiled pipeline.
        UsageError: The pipeline has no ExampleGen of files or several, or the address no span.
    """
    from penstock.components.example_gen.spans import split_span_address

    folder, _ = split_span_address(address)
    if "://" not in folder and not folder.startswith("/"):
        raise UsageError(f"--span-from must be an address or an absolute path, got {address!r}")
    name = SPAN_FROM.kfp_name
    if name not in read_kubeflow_file(path).parameters:
        raise UsageError(
            f"{path}: --span-from needs a pipeline with one ExampleGen that reads files, compiled "
            "by this version of Penstock"
        )
    return f"{name}={address}"


def _follow(
    client: kfp.Client,
    host: str,
    run_id: str,
    file: KubeflowFile,
    told: Console,
    seconds_between_polls: float,
) -> None:
    """Print what each node does until the run ends; DataError names nodes that failed."""
    shown: dict[str, str] = {}
    failed_polls = 0
    while True:
        try:
            with server_errors(host):
                run = client.get_run(run_id)
            failed_polls = 0
        except DataError:
            failed_polls += 1
            if failed_polls == _MAX_FAILED_POLLS:
                raise
            time.sleep(seconds_between_polls)
            continue
        # Without KFP's own driver pods, which are no tasks of the file.
        details = _details(run, file.tasks)
        states = {file.tasks[d.display_name]: str(d.state) for d in details if d.state}
        for node, state in states.items():
            if shown.get(node) != state:
                told.print(f"{datetime.now():%H:%M:%S} {node}: {state.lower()}")
        shown = states
        if run.state in _FINAL:
            break
        time.sleep(seconds_between_polls)
    if run.state != "SUCCEEDED":
        raise DataError(f"run {run_id} {str(run.state).lower()}{_why(run, file)}")
    told.print(f"run {run_id} succeeded")


def _why(run: Any, file: KubeflowFile) -> str:
    reasons = []
    for detail in _details(run, file.tasks):
        if detail.state == "FAILED":
            message = getattr(detail.error, "message", None)
            reasons.append(file.tasks[detail.display_name] + (f" ({message})" if message else ""))
    if reasons:
        return f": {', '.join(reasons)}; the log of its pod says why{_not_retried(run, file)}"
    message = getattr(run.error, "message", None)
    return f": {' '.join(str(message).split())}" if message else ""


def _not_retried(run: Any, file: KubeflowFile) -> str:
    """Says so where Argo's tries show that the server does not try again what failed."""
    names = {str(detail.display_name) for detail in run.run_details.task_details}
    if not file.retries or _FIRST_TRY not in names or _SECOND_TRY in names:
        return ""
    return (
        ". It was not tried again, as the file asks: this server's retryPolicy is OnError, as KFP "
        "2.17 installs it; k8s/README.md, Retries, has the patch"
    )


def _details(run: Any, tasks: Mapping[str, str]) -> list[Any]:
    details = getattr(run.run_details, "task_details", None) or []
    return [detail for detail in details if detail.display_name in tasks]
