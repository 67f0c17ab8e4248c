"""`penstock init`: from data of one's own to the package of a pipeline for it."""

from pathlib import Path
from typing import Annotated

import typer


def command(
    name: Annotated[Path, typer.Argument(help="Folder to make; its name is the pipeline's.")],
    data: Annotated[
        str, typer.Option(help="The table: a file, a glob or a folder; or a folder of images.")
    ],
    target: Annotated[
        list[str] | None,
        typer.Option(help="Column to predict; repeatable. Not for one folder per class."),
    ] = None,
    labels: Annotated[
        Path | None, typer.Option(help="Label file of the images; else the one beside them.")
    ] = None,
) -> None:
    """Look at data and write a small package that trains on it.

    Works out from the data which columns are numbers, dates, categories or ids,
    and whether the target is a class or a quantity. What was decided is in NAME/*/features.py.

    Example: penstock init churn --data customers.csv --target churned
    """
    from penstock.pipelines.cli.work.init import run_init, show_starter

    show_starter(run_init(name, data, target or [], str(labels) if labels else None))
