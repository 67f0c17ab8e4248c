"""The report of `penstock verify` on the screen."""

from penstock.components.doctor.verify import VerifyReport
from penstock.pipelines.terminal.tables import (
    console,
    counted,
    human_bytes,
    print_table,
    short_path,
    short_paths,
)

# A screenful; --json has them all. Files with a fault are on stderr in any case.
_MAX_FILES = 20


def show_verification(report: VerifyReport) -> None:
    """Print a report on stdout, its faults left to stderr."""
    out = console()
    rows = [
        (
            short_path(file.file, report.path),
            human_bytes(file.bytes),
            file.compression or "none",
            f"{file.records:,}",
            counted(len(file.faults), "fault") if file.faults else "ok",
        )
        for file in report.files
    ]
    print_table(
        out,
        f"{report.path}: {report.manifest or 'no manifest'}",
        ("file", "size", "compression", "records", "result"),
        rows[:_MAX_FILES],
    )
    if len(rows) > _MAX_FILES:
        out.print(f"  and {len(rows) - _MAX_FILES} more files")
    if report.skipped:
        out.print(f"passed over: {short_paths(report.skipped[:_MAX_FILES], report.path)}")
    for note in report.notes:
        out.print(f"note: {note}")
    out.print(
        f"{counted(len(report.files), 'file')}, {human_bytes(report.bytes)}, "
        f"{counted(report.records, 'record')}: {counted(len(report.faults), 'fault')}"
    )
