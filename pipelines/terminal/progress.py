"""Progress of a run: a live table on a terminal, a line a node elsewhere."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Protocol, TextIO

from rich.console import Console
from rich.live import Live
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

WAITING, RUNNING, FAILED = "waiting", "running", "failed"
_STYLES = {"done": "green", "cached": "cyan", FAILED: "bold red", "skipped": "dim"}


class Progress(Protocol):
    """Told of a run as it goes; a context that lasts as long as the run."""

    def __enter__(self) -> "Progress": ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None: ...

    def plan(self, nodes: Sequence[str]) -> None:
        """The run has these nodes, in this order."""

    def start(self, node: str) -> None:
        """A node begins."""

    def end(self, node: str, state: str) -> None:
        """A node has ended: `done`, `cached`, `skipped` or `failed`."""


def make_progress(screen: TextIO, title: str) -> Progress:
    """The kind of progress that suits the screen."""
    console = Console(file=screen, highlight=False, markup=False, emoji=False)
    return LiveTable(console, title) if console.is_terminal else Lines(screen, title)


class Lines:
    """A line when a node has ended, for logs and pipes."""

    def __init__(self, screen: TextIO, title: str) -> None:
        self._screen = screen
        self._title = title
        self._width = 0
        self._began = 0.0

    def __enter__(self) -> "Lines":
        self._print(self._title)
        return self

    def __exit__(self, *_: object) -> None:
        return

    def plan(self, nodes: Sequence[str]) -> None:
        """See `Progress`."""
        self._width = max(map(len, nodes))

    def start(self, node: str) -> None:
        """See `Progress`."""
        self._began = time.perf_counter()

    def end(self, node: str, state: str) -> None:
        """See `Progress`."""
        seconds = time.perf_counter() - self._began
        self._print(f"  {node:{self._width}}  {state:7}  {seconds:6.1f} s")

    def _print(self, line: str) -> None:
        print(line, file=self._screen, flush=True)


@dataclass
class _Row:
    state: str = WAITING
    began: float = 0.0
    seconds: float = 0.0


class LiveTable:
    """All nodes with their state and time, redrawn in place."""

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

    def __enter__(self) -> "LiveTable":
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def plan(self, nodes: Sequence[str]) -> None:
        """See `Progress`."""
        self._rows = {node: _Row() for node in nodes}

    def start(self, node: str) -> None:
        """See `Progress`."""
        self._rows[node] = _Row(RUNNING, time.perf_counter())
        self._spinner.update(text=RUNNING)

    def end(self, node: str, state: str) -> None:
        """See `Progress`."""
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


def _cells(row: _Row, spinner: Spinner) -> tuple[Text | Spinner, Text]:
    if row.state == RUNNING:
        return spinner, Text(f"{time.perf_counter() - row.began:.1f} s")
    if row.state == WAITING:
        return Text(WAITING, style="dim"), Text("")
    return Text(row.state, style=_STYLES.get(row.state, "")), Text(f"{row.seconds:.1f} s")
