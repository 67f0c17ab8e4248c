"""`penstock sample`: writes small files to try the commands on."""

from pathlib import Path
from typing import Annotated

import typer


def command(
    folder: Annotated[Path, typer.Argument(help="A new or an empty folder.")],
) -> None:
    """Write small files of every common kind, which README and tutorials use.

    customers.csv (1,500 invented rows), trips.csv (15,002 taxi trips, also in trips/), 200 trips as
    Parquet, JSON Lines, Avro and SQLite, a folder of photos for each of two classes, notes.txt.

    Example: penstock sample try
    """
    from penstock.pipelines.starter.sample import write_sample

    for path in write_sample(folder):
        typer.echo(str(path))
