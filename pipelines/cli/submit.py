"""`penstock submit`: starts a run of a compiled pipeline on a Kubeflow Pipelines server."""

from pathlib import Path
from typing import Annotated

import typer

from penstock.components.errors import UsageError
from penstock.pipelines.cli.option_flags import LOCAL, Host, Namespace
from penstock.pipelines.kubeflow.compiled_file import needs_kubeflow


def command(
    file: Annotated[Path, typer.Argument(help="Compiled pipeline, made by penstock compile.")],
    host: Host = LOCAL,
    experiment: Annotated[
        str, typer.Option(help="Experiment of the run; created if missing.")
    ] = "penstock",
    run_name: Annotated[
        str | None, typer.Option(help="Name of the run or schedule; by default the pipeline's.")
    ] = None,
    parameter: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="Pipeline parameter; repeatable.")
    ] = None,
    namespace: Namespace = None,
    service_account: Annotated[
        str | None,
        typer.Option(help="Kubernetes account of the run's pods; by default the server's."),
    ] = None,
    schedule: Annotated[
        str | None,
        typer.Option(
            metavar="CRON",
            help='Create a schedule instead: five cron fields, such as "0 3 * * *", in UTC unless '
            "the server is set to another zone. kfp recurring-run lists, pauses and deletes them.",
        ),
    ] = None,
    span_from: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS",
            help="Address of the data: each run takes its newest {SPAN}, or {YYYY}-{MM}-{DD}, and "
            "{VERSION}.",
        ),
    ] = None,
    wait: Annotated[
        bool, typer.Option("--wait", help="Show each node's progress; exit 1 if the run fails.")
    ] = False,
    seconds_between_polls: Annotated[
        float,
        typer.Option(min=0.01, metavar="SECONDS", help="Interval of --wait."),
    ] = 5.0,
) -> None:
    """Start a run on Kubeflow Pipelines, or a schedule of runs, and print its id.

    Example: penstock submit taxi.yaml --host http://localhost:8080 --wait
    """
    if schedule is not None and wait:
        raise UsageError("--wait follows one run; leave it out with --schedule")
    # kfp takes a second to import, and --help does not need it.
    with needs_kubeflow():
        from penstock.pipelines.kubeflow.submit import span_parameter, submit
    run_id = submit(
        file,
        host=host,
        experiment=experiment,
        name=run_name,
        parameters=[*(parameter or []), *([span_parameter(file, span_from)] if span_from else [])],
        namespace=namespace,
        service_account=service_account,
        schedule=schedule,
        wait=wait,
        seconds_between_polls=seconds_between_polls,
    )
    typer.echo(run_id)
