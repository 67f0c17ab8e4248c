"""Runs of compiled pipelines on a Kubeflow Pipelines server, by kfp's own client.

In: a compiled file and values of its parameters. Out: the run's id; with `wait`, the state of each
node on stderr, and the nodes that failed.
"""

import time
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import kfp

from penstock.components.errors import DataError
from penstock.pipelines.kubeflow.compiled_file import CompiledFile, read_compiled_file
from penstock.pipelines.kubeflow.server import connect, server_errors
from penstock.pipelines.terminal.tables import console

_FINAL = ("SUCCEEDED", "FAILED", "SKIPPED", "CANCELED")
_SECONDS_BETWEEN_POLLS = 5
# During a run of hours the server may restart.
_MAX_FAILED_POLLS = 10


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
        _wait(server, host, run_id, file)
    return run_id


def _wait(server: kfp.Client, host: str, run_id: str, file: CompiledFile) -> None:
    say = console(stderr=True).print
    shown: dict[str, str] = {}
    failed_polls = 0
    while True:
        try:
            with server_errors(host):
                run = server.get_run(run_id)
        except DataError:
            failed_polls += 1
            if failed_polls == _MAX_FAILED_POLLS:
                raise
            time.sleep(_SECONDS_BETWEEN_POLLS)
            continue
        failed_polls = 0
        for detail in _details(run, file):
            node = file.tasks[detail.display_name]
            if detail.state and shown.get(node) != detail.state:
                say(f"{datetime.now():%H:%M:%S} {node}: {detail.state.lower()}")
                shown[node] = detail.state
        if run.state in _FINAL:
            break
        time.sleep(_SECONDS_BETWEEN_POLLS)
    if run.state != "SUCCEEDED":
        raise DataError(f"run {run_id} {run.state.lower()}{_why(run, file)}")
    say(f"run {run_id} succeeded")


def _why(run: Any, file: CompiledFile) -> str:
    failed = [one for one in _details(run, file) if one.state == "FAILED"]
    if failed:
        reasons = [file.tasks[one.display_name] + _message(one, " ({})") for one in failed]
        return f": {', '.join(reasons)}; the log of its pod says why"
    return _message(run, ": {}")


def _message(failed: Any, form: str) -> str:
    message = getattr(failed.error, "message", None)
    return form.format(" ".join(message.split())) if message else ""


def _details(run: Any, file: CompiledFile) -> list[Any]:
    details = getattr(run.run_details, "task_details", None) or []
    return [detail for detail in details if detail.display_name in file.tasks]
