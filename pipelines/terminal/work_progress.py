"""Progress of one long task, for ingest, pack and verify."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from penstock.components.activity import Activity, listening
from penstock.pipelines.terminal.tables import console

SECONDS_BETWEEN_LINES = 10.0

OnProgress = Callable[[int, int | None], None]
"""Receives the amount done and the total, which is None while it is unknown."""


@contextmanager
def work_progress(amount: Callable[[int], str]) -> Iterator[OnProgress]:
    """Shows amount done, rate and time left on stderr: a bar on a terminal, lines elsewhere.

    `amount` formats a count: `12,000 rows`, `1.4 MiB`.
    """
    errors = console(stderr=True)
    started = time.perf_counter()

    def rate(done: int) -> float:
        return done / max(time.perf_counter() - started, 1e-9)

    if not errors.is_terminal:
        last = started

        def line(done: int, total: int | None) -> None:
            nonlocal last
            now = time.perf_counter()
            if now - last < SECONDS_BETWEEN_LINES:
                return
            last = now
            speed = f"{amount(int(rate(done)))}/s"
            if total is None or not done:
                errors.print(f"{amount(done)}, {speed}")
            else:
                left = (total - done) / rate(done)
                errors.print(f"{amount(done)} of {amount(total)}, {speed}, {left:.0f} s left")

        yield line
        return
    columns = (BarColumn(), TextColumn("{task.description}"), TimeRemainingColumn())
    with Progress(*columns, console=errors, transient=True) as progress:
        task = progress.add_task("", total=None)

        def bar(done: int, total: int | None) -> None:
            told = f"{amount(done)}, {amount(int(rate(done)))}/s"
            progress.update(task, completed=done, total=total, description=told)

        yield bar


@contextmanager
def watched_rows() -> Iterator[None]:
    """Shows rows, rate and time left of the work in the block."""
    with work_progress("{:,} rows".format) as on_progress:

        def show(activity: Activity) -> None:
            if activity.rows:
                on_progress(*activity.rows)

        with listening(show):
            yield
