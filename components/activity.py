"""What long work says of itself while it runs, to whoever shows it: a terminal, a log.

A node's executor is called by TFX, deep inside it, and has nobody to hand a callback to.
"""

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeAlias

logger = logging.getLogger(__name__)

SECONDS_BETWEEN_LINES = 30.0


@dataclass(frozen=True)
class Activity:
    """How far a piece of work is.

    Attributes:
        text: One line for a person: what is done, at which rate, what is left.
        is_milestone: Part of the work is over, an epoch; not to be left out.
    """

    text: str
    is_milestone: bool = False


Listener: TypeAlias = Callable[[Activity], None]


def paced(tell: Callable[[str], None]) -> Listener:
    """A listener that passes on the milestones, and the rest no more often than every 30 s."""
    told = time.perf_counter()

    def listener(activity: Activity) -> None:
        nonlocal told
        now = time.perf_counter()
        if activity.is_milestone or now - told >= SECONDS_BETWEEN_LINES:
            told = now
            tell(activity.text)

    return listener


_listener: Listener = paced(logger.info)


def tell(text: str, *, is_milestone: bool = False) -> None:
    """Say how far this process's work is; without a listener the log gets it, paced."""
    _listener(Activity(text, is_milestone))


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Have what is told in the block go to a listener instead of the log."""
    global _listener
    before, _listener = _listener, listener
    try:
        yield
    finally:
        _listener = before
