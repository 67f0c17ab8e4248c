"""Commands that compiled pipelines call in their containers, besides `penstock node`."""

from typing import Annotated

import typer


def component(
    name: Annotated[str, typer.Argument(help="ingest, validate or pack.")],
    executor_input: Annotated[str, typer.Argument(help="What Kubeflow says of the task, JSON.")],
) -> None:
    """Run a plain component inside its container; penstock compile writes the call."""
    from penstock.pipelines.kubeflow.plain.run import run_component

    run_component(name, executor_input)


def worker(
    invocation: Annotated[str, typer.Argument(help="File with TFX's ExecutionInvocation.")],
    executor: Annotated[str, typer.Argument(help="Dotted path of the executor's class.")],
    addresses: Annotated[list[str], typer.Argument(help="host:port of each worker.")],
) -> None:
    """Train with other workers, as the one of TF_CONFIG, in a pod of the TFJob that a node starts.

    Exit 128 and more: to be started again, with all others, to go on from the last checkpoint.
    """
    from penstock.pipelines.kubeflow.worker_jobs import work

    work(invocation, executor, addresses)
