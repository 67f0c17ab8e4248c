"""`penstock submit`: a run of a compiled pipeline on a Kubeflow Pipelines server."""

from pathlib import Path
from typing import Annotated, Any

import typer

from penstock.components.errors import UsageError
from penstock.pipelines.cli.option_flags import LOCAL, Host, Namespace
from penstock.pipelines.kubeflow.extra import needs_kubeflow


def command(
    file: Annotated[Path, typer.Argument(help="File that penstock compile wrote.")],
    host: Host = LOCAL,
    experiment: Annotated[
        str, typer.Option(help="Experiment that the run belongs to; made where there is none.")
    ] = "penstock",
    run_name: Annotated[
        str | None, typer.Option(help="Name of the run or schedule; else the pipeline's.")
    ] = None,
    parameter: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="Pipeline parameter; repeatable.")
    ] = None,
    namespace: Namespace = None,
    service_account: Annotated[
        str | None,
        typer.Option(help="Kubernetes account of the run's pods; else the server's default."),
    ] = None,
    schedule: Annotated[
        str | None,
        typer.Option(
            metavar="CRON",
            help='Start it on a schedule: five fields of cron, as "0 3 * * *", in UTC unless '
            "the server says another zone. See penstock schedules.",
        ),
    ] = None,
    span_from: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS",
            help="Where the pipeline's data is: each run takes the newest {SPAN}, or "
            "{YYYY}-{MM}-{DD}, and {VERSION} that is there.",
        ),
    ] = None,
    wait: Annotated[
        bool, typer.Option("--wait", help="Show each node's progress; exit 1 if the run fails.")
    ] = False,
    seconds_between_polls: Annotated[
        float,
        typer.Option(min=0.01, metavar="SECONDS", help="How often to look while waiting."),
    ] = 5.0,
) -> None:
    """Start a run on Kubeflow Pipelines, or a schedule of runs, and print its id.

    Example: penstock submit taxi.yaml --host http://localhost:8080 --wait
    """
    # kfp takes a second to import; --help does not need it.
    with needs_kubeflow():
        from penstock.pipelines.cli.work.schedules import create_schedule
        from penstock.pipelines.cli.work.submit import span_parameter, submit
    parameters = [*(parameter or []), *([span_parameter(file, span_from)] if span_from else [])]
    asked: dict[str, Any] = {
        "host": host,
        "experiment": experiment,
        "name": run_name,
        "parameters": parameters,
        "namespace": namespace,
        "service_account": service_account,
    }
    if schedule is None:
        seconds = seconds_between_polls
        typer.echo(submit(file, **asked, wait=wait, seconds_between_polls=seconds))
    elif wait:
        raise UsageError("--wait follows one run; leave it out with --schedule")
    else:
        typer.echo(create_schedule(file, schedule, **asked))
