"""Hidden commands that compiled pipelines run in containers, besides `penstock node`."""

from typing import Annotated

import typer


def component(
    name: Annotated[str, typer.Argument(help="ingest, validate or pack.")],
    executor_input: Annotated[str, typer.Argument(help="KFP's executor input, JSON.")],
) -> None:
    """Run a plain component inside its container."""
    from penstock.pipelines.kubeflow.plain.run import run_component

    run_component(name, executor_input)


def worker(
    invocation: Annotated[str, typer.Argument(help="File with TFX's ExecutionInvocation.")],
    executor: Annotated[str, typer.Argument(help="Dotted path of the executor's class.")],
    addresses: Annotated[list[str], typer.Argument(help="host:port of each worker.")],
) -> None:
    """Train as one of several workers, in a pod of the TFJob that a node starts.

    Exit code 128 or more: start all workers again; they continue from the last checkpoint.
    """
    from penstock.pipelines.kubeflow.worker_jobs import work

    work(invocation, executor, addresses)
