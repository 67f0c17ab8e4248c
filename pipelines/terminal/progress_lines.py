"""Progress where there is no terminal: a line now and then."""

import time
from collections.abc import Callable
from typing import Generic, TypeVar

from rich.console import Console

SECONDS_BETWEEN_LINES = 10.0

Total = TypeVar("Total", bound=int | None)


class ProgressLines(Generic[Total]):
    """Prints a line where the last one is `SECONDS_BETWEEN_LINES` old.

    Args:
        errors: Where to.
        line: Makes it of what is done, what there is to do, and what is done a second.
    """

    def __init__(self, errors: Console, line: Callable[[int, Total, float], str]) -> None:
        self._errors = errors
        self._line = line
        self._started = self._last = time.perf_counter()

    def __call__(self, done: int, total: Total) -> None:
        """Take note of how far the work is."""
        now = time.perf_counter()
        if now - self._last < SECONDS_BETWEEN_LINES:
            return
        self._last = now
        self._errors.print(self._line(done, total, done / (now - self._started)))
