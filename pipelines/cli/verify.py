"""`penstock verify`: every byte of a set of shards checked."""

from typing import Annotated

import typer


def command(
    path: Annotated[
        str,
        typer.Argument(
            help="An Examples folder, a folder of TFRecords, one file, or an address; or a glob."
        ),
    ],
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Check shards against their manifest, and the checksums of every record.

    All faults are listed on stderr, one line each with file, record and offset, and the exit
    code is 1. Records are numbered from 0; offsets count bytes in the uncompressed stream.

    Example: penstock verify shards
    """
    from penstock.components.doctor.verify import verify
    from penstock.components.files.spool import local_folder
    from penstock.pipelines.cli.work.verify import show_verification
    from penstock.pipelines.terminal.tables import human_bytes
    from penstock.pipelines.terminal.work_progress import work_progress

    with work_progress(human_bytes) as on_progress:
        report = verify(local_folder(path), on_progress=on_progress)
    if as_json:
        typer.echo(report.to_json())
    else:
        show_verification(report)
    report.raise_faults()
