"""`penstock predict`: rows or images through a pushed model."""

from pathlib import Path
from typing import Annotated

import typer


def command(
    model: Annotated[
        str,
        typer.Argument(help="A pushed model, its folder of versions, or the root of the runs."),
    ],
    data: Annotated[
        str, typer.Argument(help="The table: a file, a glob or a folder; or a folder of images.")
    ],
    out: Annotated[Path, typer.Option(help="Parquet file to make.")] = Path("predictions.parquet"),
) -> None:
    """Predict every row of a table, or every image.

    Rows are read with the checks of an ingest: a column of the model that is missing, or a value
    that does not fit it, stops with one line. The file has the rows and, for each, `prediction`;
    of classes also its `probability` and the `probabilities` of all.

    Example: penstock predict runs customers.csv --out predictions.parquet
    """
    from penstock.pipelines.cli.work.predict import run_predict

    run_predict(model, data, out)
