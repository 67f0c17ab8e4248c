"""What `penstock verify` shows while it works and when it is done."""

import time
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

from penstock.components.tfrecord.verify import OnProgress, VerifyReport
from penstock.pipelines.tables import (
    console,
    counted,
    human_bytes,
    print_table,
    short_path,
    short_paths,
)

_SECONDS_BETWEEN_LINES = 10.0
# A screenful; --json has them all. Files with a fault are on stderr in any case.
_MAX_FILES = 20


@contextmanager
def verify_progress() -> Iterator[OnProgress]:
    """Bytes, rate and time left on stderr: a bar on a terminal, a line now and then elsewhere."""
    errors = Console(stderr=True, highlight=False)
    if not errors.is_terminal:
        yield _Lines(errors)
        return
    columns = (BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=errors, transient=True) as progress:
        task = progress.add_task("verify", total=None)
        yield lambda done, total: progress.update(task, completed=done, total=total)


class _Lines:
    """Prints a line where the last one is ten seconds old."""

    def __init__(self, errors: Console) -> None:
        self._errors = errors
        self._started = self._last = time.perf_counter()

    def __call__(self, done: int, total: int) -> None:
        now = time.perf_counter()
        if now - self._last < _SECONDS_BETWEEN_LINES:
            return
        self._last = now
        rate = done / (now - self._started)
        self._errors.print(
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
