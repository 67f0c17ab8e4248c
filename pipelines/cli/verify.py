"""`penstock verify`: checks every byte of a set of shards."""

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from penstock.components.doctor.read_file import FileReport
    from penstock.components.doctor.verify import Report

# Maximum number of files that are shown, so that they fit on a screen; --json has all of them.
# Files with a fault are always listed on stderr.
_MAX_FILES = 20


def command(
    path: Annotated[
        str,
        typer.Argument(
            help="An Examples folder, a folder of TFRecords, one file, or an address; or a glob."
        ),
    ],
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Check shards against their manifest, and the checksums of all records.

    If there are faults, the exit code is 1, and stderr has one line per fault with file, record and
    offset. Records are numbered from 0; offsets count bytes in the uncompressed stream.

    Example: penstock verify shards
    """
    from penstock.components.doctor.verify import verify
    from penstock.components.files.spool import local_folder
    from penstock.pipelines.terminal.progress import work_progress
    from penstock.pipelines.terminal.tables import human_bytes

    with work_progress(human_bytes) as on_progress:
        report = verify(local_folder(path), on_progress=on_progress)
    if as_json:
        typer.echo(report.to_json())
    else:
        _show(report)
    report.raise_faults()


def _show(report: "Report") -> None:
    from penstock.components.errors import counted
    from penstock.pipelines.terminal import tables

    out = tables.console()
    rows = [
        (
            tables.short_path(file.file, report.path),
            tables.human_bytes(file.bytes),
            file.compression or "none",
            f"{file.records:,}{_of_rows(file)}",
            counted(len(file.faults), "fault") if file.faults else "ok",
        )
        for file in report.files
    ]
    title = f"{report.path}: {report.manifest or 'no manifest'}"
    headers = ("file", "size", "compression", "records", "result")
    tables.print_table(out, title, headers, rows[:_MAX_FILES])
    if len(rows) > _MAX_FILES:
        out.print(f"  and {len(rows) - _MAX_FILES} more files")
    if report.skipped:
        out.print(f"passed over: {tables.short_paths(report.skipped[:_MAX_FILES], report.path)}")
    for note in report.notes:
        out.print(f"note: {note}")
    out.print(
        f"{counted(len(report.files), 'file')}, {tables.human_bytes(report.bytes)}, "
        f"{counted(report.records, 'record')}{_of_rows(report)}: "
        f"{counted(len(report.faults), 'fault')}"
    )


def _of_rows(held: "FileReport | Report") -> str:
    return "" if held.rows in (None, held.records) else f" of {held.rows:,} rows"
