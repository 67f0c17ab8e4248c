"""`penstock component`: a plain Kubeflow component's work, called by its container alone."""

from typing import Annotated

import typer


def command(
    name: Annotated[str, typer.Argument(help="ingest, validate or pack.")],
    executor_input: Annotated[str, typer.Argument(help="What Kubeflow says of the task, JSON.")],
) -> None:
    """Run a plain component as its container does; penstock compile writes the call."""
    from penstock.pipelines.kubeflow.plain.run import run_component

    run_component(name, executor_input)
