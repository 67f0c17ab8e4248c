"""`penstock inspect`: shows the contents of any TFRecord."""

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from penstock.pipelines.cli.shard_tables import Inspection


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

    Works on TFRecords from any writer, uncompressed, GZIP or ZLIB. Exit 1 if a file is damaged.

    Example: penstock inspect shards/Split-train
    """
    from penstock.pipelines.cli.shard_tables import show_inspection

    report = inspect(path, samples=samples, max_records=None if every else records)
    if as_json:
        typer.echo(report.to_json())
    else:
        show_inspection(report)
    report.raise_faults()


def inspect(path: str, *, samples: int = 3, max_records: int | None = 1000) -> "Inspection":
    """Inspects a TFRecord file, a folder of them, or those that match a glob.

    Args:
        path: A TFRecord file, a folder of them, an address of either, or a glob.
        samples: Number of distinct values to show for each feature.
        max_records: Number of records to parse in all files together. They are taken from
            the start of each file, at most 64 MiB in all. None parses and counts all records.

    Returns:
        The files with their faults, and type, counts and samples of each feature.

    Raises:
        DataError: No TFRecord file is at `path`.
    """
    from penstock.components.doctor.inspect import inspect as look_into
    from penstock.components.files.spool import local_folder
    from penstock.pipelines.cli.shard_tables import Inspection

    report = look_into(local_folder(path), samples=samples, max_records=max_records)
    return Inspection(**vars(report))
