"""`penstock inspect`: shows the contents of any TFRecord."""

from typing import Annotated

import typer


def command(
    path: Annotated[
        str,
        typer.Argument(help="A TFRecord file, a folder of them, an address of either, or a glob."),
    ],
    records: Annotated[
        int, typer.Option(min=1, help="Number of records to read, spread over the files.")
    ] = 1000,
    samples: Annotated[
        int, typer.Option(min=0, help="Number of values to show of each feature.")
    ] = 3,
    every: Annotated[bool, typer.Option("--all", help="Read all records and count them.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Show what is in TFRecords: files, features and their values.

    Works on any TFRecord, uncompressed or GZIP, by any writer. Exit 1 if a file is damaged.

    Example: penstock inspect shards/Split-train
    """
    from penstock.components.doctor.inspect import inspect
    from penstock.components.files.spool import local_folder
    from penstock.pipelines.cli.shard_tables import show_inspection

    report = inspect(local_folder(path), samples=samples, max_records=None if every else records)
    if as_json:
        typer.echo(report.to_json())
    else:
        show_inspection(report)
    report.raise_faults()
