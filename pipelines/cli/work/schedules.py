"""Work of `penstock submit --schedule` and `penstock schedules`: recurring runs of KFP."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from penstock.components.errors import UsageError, counted
from penstock.pipelines.kubeflow.compiled_file import read_compiled_file
from penstock.pipelines.kubeflow.server import connect, server_errors
from penstock.pipelines.terminal.tables import console, print_table

_FIELDS = re.compile(r"[\w*/,?-]+( [\w*/,?-]+){4}")
_PAGE = 100


def check_cron(text: str) -> str:
    """Returns five cron fields in KFP's form, seconds first."""
    fields = " ".join(text.split())
    if not _FIELDS.fullmatch(fields):
        raise UsageError(
            f'--schedule takes the five fields of cron, as "0 3 * * *" (minute, hour, day, month, '
            f"weekday), got {text!r}"
        )
    return f"0 {fields}"


def create_schedule(
    path: Path,
    cron: str,
    *,
    host: str,
    experiment: str,
    name: str | None,
    parameters: Sequence[str],
    namespace: str | None,
    service_account: str | None,
) -> str:
    """Creates a schedule of a compiled pipeline and returns its id.

    Runs never overlap. After a pause or a long run KFP makes up for the last missed run only: a run
    takes the newest span anyway.
    """
    expression = check_cron(cron)
    file = read_compiled_file(path)
    arguments = file.arguments(parameters)
    client = connect(host, namespace)
    with server_errors(host):
        made = client.create_recurring_run(
            experiment_id=client.create_experiment(experiment, namespace=namespace).experiment_id,
            job_name=name or file.name,
            cron_expression=expression,
            max_concurrency=1,
            no_catchup=True,
            params=arguments,
            pipeline_package_path=str(path),
            service_account=service_account,
        )
    return str(made.recurring_run_id)


def show_schedules(host: str, namespace: str | None) -> None:
    """Prints the schedules of a server; DataError if it does not answer."""
    rows = [
        (one.recurring_run_id, one.display_name, _cron(one), str(one.status).lower())
        for one in _all(connect(host, namespace), host, namespace)
    ]
    print_table(console(), counted(len(rows), "schedule"), ("id", "name", "when", "state"), rows)


def change_schedule(
    what: str, action: Literal["enable", "disable", "delete"], host: str, namespace: str | None
) -> str:
    """Enables, disables or deletes a schedule by its id or name, and returns its name."""
    client = connect(host, namespace)
    known = _all(client, host, namespace)
    found = [one for one in known if what in (one.recurring_run_id, one.display_name)]
    if len(found) != 1:
        names = ", ".join(f"{one.display_name} ({one.recurring_run_id})" for one in found or known)
        problem = "several schedules are called" if found else "no schedule"
        raise UsageError(f"{problem} {what!r}; choices: {names or 'there are none'}")
    with server_errors(host):
        getattr(client, f"{action}_recurring_run")(found[0].recurring_run_id)
    return str(found[0].display_name)


def _all(client: Any, host: str, namespace: str | None) -> list[Any]:
    found: list[Any] = []
    token = ""
    while True:
        with server_errors(host):
            answer = client.list_recurring_runs(
                page_token=token, page_size=_PAGE, namespace=namespace
            )
        found += answer.recurring_runs or []
        token = answer.next_page_token or ""
        if not token:
            return found


def _cron(schedule: Any) -> str:
    cron = getattr(schedule.trigger, "cron_schedule", None)
    return str(cron.cron).removeprefix("0 ") if cron else "every so often"
