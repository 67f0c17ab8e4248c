"""`penstock export`: writes shards in the formats of other readers."""

import json
import time
from pathlib import Path
from typing import Annotated

import typer


def command(
    shards: Annotated[
        Path, typer.Argument(help="Folder of an ingest or a pack, with its manifest.")
    ],
    output: Annotated[Path, typer.Argument(help="Folder to make.")],
    to: Annotated[str, typer.Option(help="parquet or arrayrecord (for grain).")],
    split: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Split to export; repeatable. [all]")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the rows of each split.")] = False,
) -> None:
    """Write the rows of shards as Parquet or ArrayRecord.

    OUTPUT appears only after every row is written.

    Example: penstock export shards as-parquet --to parquet
    """
    from penstock.components.readers.export import export
    from penstock.pipelines.terminal.progress import work_progress
    from penstock.pipelines.terminal.tables import console

    started = time.perf_counter()
    with work_progress("{:,} rows".format) as on_rows:
        written = export(shards, output, to=to, splits=split or (), on_rows=on_rows)
    if as_json:
        typer.echo(json.dumps({"rows": written}))
        return
    by_split = ", ".join(f"{name} {rows:,}" for name, rows in written.items())
    seconds = time.perf_counter() - started
    console().print(
        f"{sum(written.values()):,} rows written ({by_split}) in {seconds:.1f} s: {output}"
    )
