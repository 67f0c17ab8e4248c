"""`penstock export`: shards in the formats of other readers."""

from pathlib import Path
from typing import Annotated

import typer


def command(
    shards: Annotated[
        Path, typer.Argument(help="Folder of an ingest or a pack, with its manifest.")
    ],
    output: Annotated[Path, typer.Argument(help="Folder to make.")],
    to: Annotated[str, typer.Option(help="parquet, arrayrecord (for grain), webdataset or mds.")],
    split: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Once a split to export. [all]")
    ] = None,
) -> None:
    """Write the rows of shards as Parquet, ArrayRecord, WebDataset or MDS.

    All of OUTPUT appears at once when every row is written, or nothing of it does.

    Example: penstock export shards as-parquet --to parquet
    """
    from penstock.pipelines.cli.work.export import run_export

    run_export(shards, output, to, split or [])
