"""What `penstock verify` shows while it works and when it is done."""

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    TimeRemainingColumn,
    TransferSpeedColumn,
)

from penstock.components.doctor.verify import OnProgress, VerifyReport
from penstock.pipelines.terminal.progress_lines import ProgressLines
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


@contextmanager
def verify_progress() -> Iterator[OnProgress]:
    """Bytes, rate and time left on stderr: a bar on a terminal, a line now and then elsewhere."""
    errors = Console(stderr=True, highlight=False)
    if not errors.is_terminal:
        yield ProgressLines(errors, _line)
        return
    columns = (BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=errors, transient=True) as progress:
        task = progress.add_task("verify", total=None)
        yield lambda done, total: progress.update(task, completed=done, total=total)


def _line(done: int, total: int, rate: float) -> str:
    return (
        f"{human_bytes(done)} of {human_bytes(total)}, {human_bytes(int(rate))}/s, "
        f"{(total - done) / rate:.0f} s left"
    )


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
