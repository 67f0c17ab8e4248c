"""`penstock worker`: one of the workers of a node that trains, in a pod of a TFJob."""

from typing import Annotated

import typer


def command(
    invocation: Annotated[str, typer.Argument(help="File with TFX's ExecutionInvocation.")],
    executor: Annotated[str, typer.Argument(help="Dotted path of the executor's class.")],
) -> None:
    """Train with the workers that TF_CONFIG names; `penstock node` starts it.

    Exit 128 and more: to be started again, with all others, to go on from the last checkpoint.
    """
    from penstock.pipelines.kubeflow.worker_jobs import work

    work(invocation, executor)
