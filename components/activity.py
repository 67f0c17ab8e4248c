"""Progress of long work, sent to a listener: a terminal, a live table, or the log.

TFX calls a node's executor deep inside its own code, where no callback can be passed, so there is
one listener per process. Tasks call `advance`, in whatever process of this machine they run.
"""

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeAlias

logger = logging.getLogger(__name__)

SECONDS_BETWEEN_LINES = 30.0
_SECONDS_BETWEEN_COUNTS = 0.2


@dataclass(frozen=True)
class Activity:
    """State of some work: a line of text and, if rows are counted, rows done and rows in all.

    A milestone, such as the end of an epoch, is always reported.
    """

    text: str
    is_milestone: bool = False
    rows: tuple[int, int] | None = None


Listener: TypeAlias = Callable[[Activity], None]
OnRows: TypeAlias = Callable[[int], None]


def paced(tell: Callable[[str], None]) -> Listener:
    """Returns a listener that reports each milestone, and other states at most every 30 s.

    The first 30 s begin with the first report, not when the listener is made, because nothing is
    reported while libraries are imported.
    """
    told: float | None = None

    def listener(activity: Activity) -> None:
        nonlocal told
        now = time.perf_counter()
        if told is None:
            told = now
        if activity.is_milestone or now - told >= SECONDS_BETWEEN_LINES:
            told = now
            tell(activity.text)

    return listener


def _uncounted(rows: int) -> None:
    del rows


_listener: Listener = paced(logger.info)
_on_rows: OnRows = _uncounted


def tell(text: str, *, is_milestone: bool = False) -> None:
    """Reports the state of this process' work to the listener, by default to the log."""
    _listener(Activity(text, is_milestone))


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Within the block, sends reports to a listener instead of the log."""
    global _listener
    before, _listener = _listener, listener
    try:
        yield
    finally:
        _listener = before


def advance(rows: int) -> None:
    """Counts rows that a task has processed; has no effect in tasks on other machines."""
    _on_rows(rows)


@contextmanager
def counting(total: int) -> Iterator[None]:
    """Within the block, reports rows done, rate and time left as tasks call `advance`."""
    began = told = time.perf_counter()
    done = 0

    def count(rows: int) -> None:
        nonlocal done, told
        done += rows
        now = time.perf_counter()
        if done and now - told >= _SECONDS_BETWEEN_COUNTS:
            told = now
            rate = done / (now - began)
            left = f"{(total - done) / rate:.0f} s left"
            text = f"{done:,} of {total:,} rows, {rate:,.0f}/s, {left}"
            _listener(Activity(text, rows=(done, total)))

    with counting_by(count):
        yield


@contextmanager
def counting_by(on_rows: OnRows) -> Iterator[None]:
    global _on_rows
    before, _on_rows = _on_rows, on_rows
    try:
        yield
    finally:
        _on_rows = before
