"""`penstock schedules`: lists, pauses, resumes and deletes schedules on Kubeflow Pipelines."""

from typing import Annotated, Literal

import typer

from penstock.pipelines.cli.option_flags import LOCAL, Host, Namespace
from penstock.pipelines.kubeflow.compiled_file import needs_kubeflow

app = typer.Typer(no_args_is_help=True)

Schedule = Annotated[str, typer.Argument(help="Id or name of the schedule.")]


@app.command("list")
def list_command(host: Host = LOCAL, namespace: Namespace = None) -> None:
    """List the schedules of a Kubeflow Pipelines server.

    Example: penstock schedules list --host http://localhost:8080
    """
    with needs_kubeflow():
        from penstock.pipelines.kubeflow.submit import show_schedules

    show_schedules(host, namespace)


@app.command("pause")
def pause_command(schedule: Schedule, host: Host = LOCAL, namespace: Namespace = None) -> None:
    """Pause a schedule: no runs start until it is resumed.

    Example: penstock schedules pause taxi
    """
    typer.echo(f"{_change(schedule, 'disable', host, namespace)}: paused")


@app.command("resume")
def resume_command(schedule: Schedule, host: Host = LOCAL, namespace: Namespace = None) -> None:
    """Resume a paused schedule.

    Example: penstock schedules resume taxi
    """
    typer.echo(f"{_change(schedule, 'enable', host, namespace)}: resumed")


@app.command("delete")
def delete_command(schedule: Schedule, host: Host = LOCAL, namespace: Namespace = None) -> None:
    """Delete a schedule and the pods of its active runs; records of its runs stay.

    Example: penstock schedules delete taxi
    """
    typer.echo(f"{_change(schedule, 'delete', host, namespace)}: deleted")


def _change(
    schedule: str,
    action: Literal["enable", "disable", "delete"],
    host: str,
    namespace: str | None,
) -> str:
    with needs_kubeflow():
        from penstock.pipelines.kubeflow.submit import change_schedule

    return change_schedule(schedule, action, host, namespace)
