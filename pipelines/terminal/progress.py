"""Progress of a run or of one long task: redrawn in place on a terminal, lines elsewhere."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import TextIO

from rich.console import Console
from rich.progress import BarColumn, TaskID, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.progress import Progress as Table

from penstock.components.activity import Activity, Listener, listening, paced
from penstock.pipelines.terminal.tables import console, plain

FAILED = "failed"
_STYLES = {"done": "green", "cached": "cyan", FAILED: "bold red", "skipped": "dim"}
SECONDS_BETWEEN_LINES = 10.0

OnProgress = Callable[[int, int | None], None]
"""Receives the amount done and the total, which is None while it is unknown."""


class Progress:
    """Receiver of the events of a run; a context manager for the duration of the run.

    This class prints lines, for logs and pipes: after each node, after each epoch, and every 30
    seconds. Without a `screen` it prints nothing.
    """

    _screen: TextIO | None = None
    _width, _began = 0, 0.0
    _told: Listener = staticmethod(lambda activity: None)

    def __init__(self, screen: TextIO | None = None, title: str = "") -> None:
        self._screen = screen
        self._title = title

    def __enter__(self) -> "Progress":
        self._print(self._title)
        return self

    def __exit__(self, *_: object) -> None:
        return

    def log(self, path: str) -> None:
        """Reports the log file to which the output of the nodes goes."""
        self._print(f"  log: {path}")

    def plan(self, nodes: Sequence[str]) -> None:
        """Sets the nodes of the run, in order."""
        self._width = max(map(len, nodes))

    def start(self, node: str) -> None:
        """Reports that a node has started."""
        self._began = time.perf_counter()
        self._told = paced(lambda text: self._print(f"  {node:{self._width}}  {text}"))

    def tell(self, activity: Activity) -> None:
        """Reports progress of the running node."""
        self._told(activity)

    def end(self, node: str, state: str) -> None:
        """Reports the end of a node: `done`, `cached`, `skipped` or `failed`."""
        seconds = time.perf_counter() - self._began
        self._print(f"  {node:{self._width}}  {state:7}  {seconds:6.1f} s")

    def _print(self, line: str) -> None:
        if self._screen:
            print(plain(line), file=self._screen, flush=True)


def make_progress(screen: TextIO, title: str, *, quiet: bool = False) -> Progress:
    """Returns a receiver that shows a live table on a terminal, else lines; nothing if `quiet`."""
    if quiet:
        return Progress()
    on_screen = console(file=screen, soft_wrap=False)
    return _LiveTable(on_screen, title) if on_screen.is_terminal else Progress(screen, title)


class _LiveTable(Progress):
    """Shows all nodes with state and time, and the running node's progress, redrawn in place."""

    # Few redraws, because each one holds the interpreter's lock for a millisecond or two.
    _REFRESH_PER_SECOND = 5

    def __init__(self, console: Console, title: str) -> None:
        self._live = Table(
            TextColumn("{task.description}", markup=False),
            TextColumn("{task.fields[state]}"),
            TimeElapsedColumn(),
            TextColumn("{task.fields[activity]}", markup=False),
            console=console,
            refresh_per_second=self._REFRESH_PER_SECOND,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        self._title = title
        self._nodes: dict[str, TaskID] = {}
        self._running: TaskID | None = None
        self._loading = self._live.add_task("", state="loading TensorFlow and TFX", activity="")

    def __enter__(self) -> "_LiveTable":
        self._live.console.print(self._title)
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def log(self, path: str) -> None:
        self._live.console.print(f"log: {path}", soft_wrap=True)

    def plan(self, nodes: Sequence[str]) -> None:
        self._live.remove_task(self._loading)
        self._nodes = {
            node: self._live.add_task(node, start=False, state="[dim]waiting", activity="")
            for node in nodes
        }

    def start(self, node: str) -> None:
        self._running = task = self._nodes[node]
        self._live.update(task, state="running")
        self._live.start_task(task)

    def tell(self, activity: Activity) -> None:
        if self._running is not None:
            self._live.update(self._running, activity=plain(activity.text))

    def end(self, node: str, state: str) -> None:
        self._running = None
        self._live.stop_task(self._nodes[node])
        shown = f"[{_STYLES.get(state, 'none')}]{state}"
        self._live.update(self._nodes[node], state=shown, activity="")


@contextmanager
def work_progress(amount: Callable[[int], str]) -> Iterator[OnProgress]:
    """Shows amount done, rate and time left on stderr: a bar on a terminal, lines elsewhere.

    `amount` formats a count: `12,000 rows`, `1.4 MiB`.
    """
    errors, started = console(stderr=True), time.perf_counter()
    columns = (BarColumn(), TextColumn("{task.description}"), TimeRemainingColumn())
    bar = Table(*columns, console=errors, transient=True)
    task, last = bar.add_task("", total=None), started

    def show(done: int, total: int | None) -> None:
        nonlocal last
        now = time.perf_counter()
        rate = done / max(now - started, 1e-9)
        told = f"{amount(done)}, {amount(int(rate))}/s"
        bar.update(task, completed=done, total=total, description=told)
        if not errors.is_terminal and now - last >= SECONDS_BETWEEN_LINES:
            last = now
            if total is not None and done:
                of, left = amount(total), (total - done) / rate
                told = f"{amount(done)} of {of}, {amount(int(rate))}/s, {left:.0f} s left"
            errors.print(told)

    with bar if errors.is_terminal else nullcontext():
        yield show


@contextmanager
def watched_rows() -> Iterator[None]:
    """Shows rows, rate and time left of the work in the block."""
    with work_progress("{:,} rows".format) as on_progress:

        def show(activity: Activity) -> None:
            if activity.rows:
                on_progress(*activity.rows)

        with listening(show):
            yield
