"""Progress of a run: a live table on a terminal, lines elsewhere, JSON for programs, or none."""

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TextIO

from rich.console import Console
from rich.live import Live
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from penstock.components.activity import Activity, paced
from penstock.pipelines.terminal.output import plain
from penstock.pipelines.terminal.tables import console

WAITING, RUNNING, FAILED = "waiting", "running", "failed"
_STYLES = {"done": "green", "cached": "cyan", FAILED: "bold red", "skipped": "dim"}


class Progress:
    """Told of a run as it goes; a context that lasts as long as the run. This one says nothing."""

    def __enter__(self) -> "Progress":
        return self

    def __exit__(self, *_: object) -> None:
        return

    def log(self, path: str) -> None:
        """Output of the nodes goes to this file."""

    def plan(self, nodes: Sequence[str]) -> None:
        """The run has these nodes, in this order."""

    def start(self, node: str) -> None:
        """A node begins."""

    def tell(self, activity: Activity) -> None:
        """Progress of the running node."""

    def end(self, node: str, state: str) -> None:
        """A node has ended: `done`, `cached`, `skipped` or `failed`."""


def make_progress(
    screen: TextIO, title: str, *, as_json: bool = False, quiet: bool = False
) -> Progress:
    """The kind of progress that was asked for, else the one that suits the screen."""
    if quiet:
        return Progress()
    if as_json:
        return _JsonLines(screen, title)
    on_screen = console(file=screen, soft_wrap=False)
    return _LiveTable(on_screen, title) if on_screen.is_terminal else _Lines(screen, title)


class _Lines(Progress):
    """A line when a node has ended, and every 30 seconds and at each epoch; for logs and pipes."""

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


class _JsonLines(_Lines):
    """An event a line: `run`, `log`, `plan`, `start`, `activity`, `end`."""

    def __enter__(self) -> "_JsonLines":
        self._event("run", command=self._title)
        return self

    def log(self, path: str) -> None:
        self._event("log", path=path)

    def plan(self, nodes: Sequence[str]) -> None:
        self._event("plan", nodes=list(nodes))

    def start(self, node: str) -> None:
        self._told = paced(lambda text: self._event("activity", node=node, text=text))
        self._event("start", node=node)

    def end(self, node: str, state: str) -> None:
        self._event("end", node=node, state=state)

    def _event(self, event: str, **what: object) -> None:
        self._print(json.dumps({"event": event, "time": round(time.time(), 3), **what}))


@dataclass
class _Row:
    state: str = WAITING
    began: float = 0.0
    seconds: float = 0.0
    activity: str = ""


class _LiveTable(Progress):
    """All nodes with their state and time, and how far the running one is, redrawn in place."""

    # Each redraw takes the interpreter's lock from the work for a millisecond or two.
    _REFRESH_PER_SECOND = 5

    def __init__(self, console: Console, title: str) -> None:
        self._title = title
        self._rows: dict[str, _Row] = {}
        self._spinner = Spinner("dots", text="loading TensorFlow and TFX")
        self._live = Live(
            console=console,
            get_renderable=self._render,
            refresh_per_second=self._REFRESH_PER_SECOND,
            redirect_stdout=False,
            redirect_stderr=False,
        )

    def __enter__(self) -> "_LiveTable":
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def log(self, path: str) -> None:
        self._live.console.print(f"log: {path}", soft_wrap=True)

    def plan(self, nodes: Sequence[str]) -> None:
        self._rows = {node: _Row() for node in nodes}

    def start(self, node: str) -> None:
        self._rows[node] = _Row(RUNNING, time.perf_counter())
        self._spinner.update(text=RUNNING)

    def tell(self, activity: Activity) -> None:
        for row in self._rows.values():
            if row.state == RUNNING:
                row.activity = activity.text

    def end(self, node: str, state: str) -> None:
        row = self._rows[node]
        row.state, row.seconds = state, time.perf_counter() - row.began

    def _render(self) -> Table | Spinner:
        if not self._rows:
            return self._spinner
        table = Table.grid(padding=(0, 2))
        table.title, table.title_justify = self._title, "left"
        for node, row in self._rows.items():
            table.add_row(node, *_cells(row, self._spinner))
        return table


def _cells(row: _Row, spinner: Spinner) -> tuple[Text | Spinner, ...]:
    if row.state == RUNNING:
        seconds = Text(f"{time.perf_counter() - row.began:.1f} s")
        return spinner, seconds, Text(plain(row.activity), overflow="ellipsis", no_wrap=True)
    if row.state == WAITING:
        return Text(WAITING, style="dim"), Text("")
    return Text(row.state, style=_STYLES.get(row.state, "")), Text(f"{row.seconds:.1f} s")
