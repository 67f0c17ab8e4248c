"""Runs and schedules of compiled pipelines on a Kubeflow Pipelines server."""

import re
import time
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import kfp

from penstock.components.errors import DataError, UsageError
from penstock.pipelines.kubeflow.compiled_file import CompiledFile, read_compiled_file
from penstock.pipelines.kubeflow.names import SPAN_FROM_NAME
from penstock.pipelines.kubeflow.server import connect, server_errors
from penstock.pipelines.terminal.tables import console

_FINAL = ("SUCCEEDED", "FAILED", "SKIPPED", "CANCELED")
# During a run of hours the server may restart.
_MAX_FAILED_POLLS = 10
# Argo's names for the attempts of a node with a retry strategy.
_FIRST_TRY, _SECOND_TRY = "executor(0)", "executor(1)"
_CRON_FIELDS = re.compile(r"[\w*/,?-]+( [\w*/,?-]+){4}")


def submit(
    path: Path,
    *,
    host: str,
    experiment: str,
    name: str | None,
    parameters: Sequence[str],
    namespace: str | None,
    service_account: str | None,
    schedule: str | None = None,
    wait: bool = False,
    seconds_between_polls: float = 5.0,
) -> str:
    """Starts a run of a compiled pipeline, or makes a schedule of runs, and returns its id.

    Runs of a schedule never overlap. After a pause or a long run KFP starts only the last of the
    missed runs: it takes the newest span in any case.
    """
    cron = None if schedule is None else check_cron(schedule)
    file = read_compiled_file(path)
    arguments = file.arguments(parameters)
    client = connect(host, namespace)
    with server_errors(host):
        asked: dict[str, Any] = {
            "experiment_id": client.create_experiment(
                experiment, namespace=namespace
            ).experiment_id,
            "pipeline_package_path": str(path),
            "params": arguments,
            "service_account": service_account,
        }
        if cron:
            made = client.create_recurring_run(
                **asked,
                job_name=name or file.name,
                cron_expression=cron,
                max_concurrency=1,
                no_catchup=True,
            )
            return str(made.recurring_run_id)
        now = f"{datetime.now():%Y-%m-%d %H:%M:%S}"
        run = client.run_pipeline(**asked, job_name=name or f"{file.name} {now}")
    console(stderr=True).print(f"run {run.run_id}: {host.rstrip('/')}/#/runs/details/{run.run_id}")
    if wait:
        _follow(client, host, str(run.run_id), file, seconds_between_polls)
    return str(run.run_id)


def check_cron(text: str) -> str:
    """Returns five cron fields in KFP's form, which begins with the seconds."""
    fields = " ".join(text.split())
    if not _CRON_FIELDS.fullmatch(fields):
        raise UsageError(
            f'--schedule takes the five fields of cron, as "0 3 * * *" (minute, hour, day, month, '
            f"weekday), got {text!r}"
        )
    return f"0 {fields}"


def span_parameter(path: Path, address: str) -> str:
    """Returns `--span-from` as `NAME=VALUE` for a parameter of a compiled pipeline."""
    from penstock.components.example_gen.spans import split_span_address

    folder, _ = split_span_address(address)
    if "://" not in folder and not folder.startswith("/"):
        raise UsageError(f"--span-from must be an address or an absolute path, got {address!r}")
    name = SPAN_FROM_NAME
    if name not in read_compiled_file(path).parameters:
        raise UsageError(
            f"{path}: --span-from needs a pipeline with one ExampleGen that reads files, compiled "
            "by this version of Penstock"
        )
    return f"{name}={address}"


def _follow(
    client: kfp.Client,
    host: str,
    run_id: str,
    file: CompiledFile,
    seconds_between_polls: float,
) -> None:
    output = console(stderr=True)
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
        details = _details(run, file.tasks)
        states = {file.tasks[d.display_name]: str(d.state) for d in details if d.state}
        for node, state in states.items():
            if shown.get(node) != state:
                output.print(f"{datetime.now():%H:%M:%S} {node}: {state.lower()}")
        shown = states
        if run.state in _FINAL:
            break
        time.sleep(seconds_between_polls)
    if run.state != "SUCCEEDED":
        raise DataError(f"run {run_id} {str(run.state).lower()}{_why(run, file)}")
    output.print(f"run {run_id} succeeded")


def _why(run: Any, file: CompiledFile) -> str:
    reasons = []
    for detail in _details(run, file.tasks):
        if detail.state == "FAILED":
            message = getattr(detail.error, "message", None)
            reasons.append(file.tasks[detail.display_name] + (f" ({message})" if message else ""))
    if reasons:
        return f": {', '.join(reasons)}; the log of its pod says why{_not_retried(run, file)}"
    message = getattr(run.error, "message", None)
    return f": {' '.join(str(message).split())}" if message else ""


def _not_retried(run: Any, file: CompiledFile) -> str:
    """Returns a hint if Argo's attempts show that the server does not retry failed nodes."""
    names = {str(detail.display_name) for detail in run.run_details.task_details}
    if not file.retries or _FIRST_TRY not in names or _SECOND_TRY in names:
        return ""
    return (
        ". It was not retried, though the file asks for it: this server's retryPolicy is OnError, "
        "as KFP 2.17 installs it; docs/kubeflow/operations.md, Retries, has the patch"
    )


def _details(run: Any, tasks: Mapping[str, str]) -> list[Any]:
    details = getattr(run.run_details, "task_details", None) or []
    return [detail for detail in details if detail.display_name in tasks]
