"""`penstock doctor`: checks a Kubeflow Pipelines server before the first run."""

from pathlib import Path
from typing import Annotated

import typer

from penstock.components.errors import DataError, counted
from penstock.pipelines.cli.option_flags import Namespace, ServiceAccount
from penstock.pipelines.kubeflow.compiled_file import needs_kubeflow


def command(
    kubeflow: Annotated[
        str, typer.Option(metavar="HOST", help="Address of the Kubeflow Pipelines server.")
    ],
    namespace: Namespace = None,
    service_account: ServiceAccount = None,
    placement: Annotated[
        Path | None, typer.Option(help="Placement that pipelines are compiled with.")
    ] = None,
) -> None:
    """Check a Kubeflow Pipelines server and a namespace; print one line per check, with the remedy.

    Checks version and login of the server, then, with your kubeconfig, the account, the volume
    claim and the secrets of runs. Facts that you may not read are reported as "unseen". Changes
    nothing. Exit 1 if a fault would stop a run.

    Example: penstock doctor --kubeflow http://localhost:8080 --namespace team-a
    """
    with needs_kubeflow():
        from penstock.pipelines.kubeflow.doctor import examine
    from penstock.pipelines.kubeflow.placement import read_placement

    faults = 0
    checks = examine(kubeflow, namespace, service_account, read_placement(placement))
    for subject, (state, text) in checks:
        faults += state == "fault"
        typer.echo(f"{state:<8} {subject}: {text}")
    if faults:
        raise DataError(f"{counted(faults, 'fault')} would stop a run")
