"""`penstock submit`: starts a run of a compiled pipeline on a Kubeflow Pipelines server."""

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from penstock.pipelines.cli.option_flags import LOCAL, Host, Namespace, ServiceAccount, Spans
from penstock.pipelines.kubeflow.compiled_file import needs_kubeflow


def command(
    file: Annotated[Path, typer.Argument(help="Compiled pipeline, made by penstock compile.")],
    host: Host = LOCAL,
    experiment: Annotated[
        str, typer.Option(help="Experiment of the run; created if missing.")
    ] = "penstock",
    run_name: Annotated[
        str | None, typer.Option(help="Name of the run; by default the pipeline's.")
    ] = None,
    parameter: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="Pipeline parameter; repeatable.")
    ] = None,
    spans: Spans = None,
    namespace: Namespace = None,
    service_account: ServiceAccount = None,
    wait: Annotated[
        bool,
        typer.Option(
            "--wait", help="Show each node's progress; exit 1 if the run fails. --spans waits."
        ),
    ] = False,
) -> None:
    """Start a run on Kubeflow Pipelines and print its id.

    For runs on a schedule, use kfp recurring-run.

    Example: penstock submit taxi.yaml --host http://localhost:8080 --wait
    """
    # kfp takes a second to import, and --help does not need it.
    with needs_kubeflow():
        from penstock.pipelines.kubeflow.submit import submit, submit_spans
        from penstock.pipelines.runs.spans import parse_spans
    start = partial(submit_spans, spans=parse_spans(spans)) if spans else submit
    run_id = start(
        file,
        host=host,
        experiment=experiment,
        name=run_name,
        parameters=parameter or [],
        namespace=namespace,
        service_account=service_account,
        wait=wait,
    )
    typer.echo(run_id)
