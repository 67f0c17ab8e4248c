"""Progress of a run: a live table on a terminal, lines elsewhere, or nothing."""

import time
from collections.abc import Sequence
from typing import TextIO

from rich.console import Console
from rich.progress import Progress as Table
from rich.progress import TaskID, TextColumn, TimeElapsedColumn

from penstock.components.activity import Activity, paced
from penstock.pipelines.terminal.output import plain
from penstock.pipelines.terminal.tables import console

FAILED = "failed"
_STYLES = {"done": "green", "cached": "cyan", FAILED: "bold red", "skipped": "dim"}


class Progress:
    """Receives the events of a run; a context that lasts as long as the run.

    This one shows nothing.
    """

    def __enter__(self) -> "Progress":
        return self

    def __exit__(self, *_: object) -> None:
        return

    def log(self, path: str) -> None:
        """The output of the nodes goes to this file."""

    def plan(self, nodes: Sequence[str]) -> None:
        """The run consists of these nodes, in this order."""

    def start(self, node: str) -> None:
        """A node has started."""

    def tell(self, activity: Activity) -> None:
        """The running node reports progress."""

    def end(self, node: str, state: str) -> None:
        """A node has ended: `done`, `cached`, `skipped` or `failed`."""


def make_progress(screen: TextIO, title: str, *, quiet: bool = False) -> Progress:
    """Returns the requested kind of progress, or a live table or lines depending on the screen."""
    if quiet:
        return Progress()
    on_screen = console(file=screen, soft_wrap=False)
    return _LiveTable(on_screen, title) if on_screen.is_terminal else _Lines(screen, title)


class _Lines(Progress):
    """Prints a line after each node, every 30 seconds and after each epoch; for logs and pipes."""

    def __init__(self, screen: TextIO, title: str) -> None:
        self._screen = screen
        self._title = title
        self._width = 0
        self._began = 0.0

    def __enter__(self) -> "_Lines":
        self._print(self._title)
        return self

    def log(self, path: str) -> None:
        self._print(f"  log: {path}")

    def plan(self, nodes: Sequence[str]) -> None:
        self._width = max(map(len, nodes))

    def start(self, node: str) -> None:
        self._began = time.perf_counter()
        self._told = paced(lambda text: self._print(f"  {node:{self._width}}  {text}"))

    def tell(self, activity: Activity) -> None:
        self._told(activity)

    def end(self, node: str, state: str) -> None:
        seconds = time.perf_counter() - self._began
        self._print(f"  {node:{self._width}}  {state:7}  {seconds:6.1f} s")

    def _print(self, line: str) -> None:
        print(plain(line), file=self._screen, flush=True)


class _LiveTable(Progress):
    """Shows all nodes with state and time, and the running node's progress, redrawn in place."""

    # Each redraw holds the interpreter's lock for a millisecond or two.
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
