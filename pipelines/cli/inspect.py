"""`penstock inspect`: what is in any TFRecord, or in rows that an ingest quarantined."""

from typing import Annotated

import typer


def command(
    path: Annotated[
        str,
        typer.Argument(
            help="A TFRecord file, a folder of them, an address of either, or a glob; "
            "or an ingest's quarantine."
        ),
    ],
    records: Annotated[
        int, typer.Option(min=1, help="Records to look at, spread over the files.")
    ] = 1000,
    samples: Annotated[int, typer.Option(min=0, help="Values of each feature to show.")] = 3,
    every: Annotated[
        bool, typer.Option("--all", help="Look at every record; count every file to its end.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Show what is in TFRecords: files, the layout of a record, features and their values.

    Works on any TFRecord, uncompressed or GZIP, whoever wrote it. Exit 1 where a file is damaged.
    Of rows that an ingest quarantined: counts by reason, and the first of them.

    Example: penstock inspect shards/Split-train
    """
    from penstock.components.files.spool import local_folder
    from penstock.pipelines.cli.work.rejected_rows import (
        find_rejected,
        inspect_rejected,
        show_rejected,
    )

    path = local_folder(path)
    if rejected := find_rejected(path):
        set_aside = inspect_rejected(path, rejected, every=every)
        if as_json:
            typer.echo(set_aside.to_json())
        else:
            show_rejected(set_aside)
        return
    from penstock.components.doctor.inspect import inspect
    from penstock.components.errors import DataError
    from penstock.pipelines.cli.work.inspect import show_inspection

    report = inspect(path, samples=samples, max_records=None if every else records)
    if as_json:
        typer.echo(report.to_json())
    else:
        show_inspection(report)
    if report.faults:
        raise DataError("\n".join(report.faults))
