"""`penstock carry`: what the first containers of a large compiled pipeline run."""

from typing import Annotated

import typer


def command(
    address: Annotated[str, typer.Argument(help="File to write, a path or an address.")],
    part: Annotated[str, typer.Argument(help="A part of the pipeline's IR.")],
) -> None:
    """Write a part of a pipeline below its root, where the pipeline's nodes read it."""
    from penstock.pipelines.kubeflow.carried import write_part

    write_part(address, part)
    typer.echo(address)
