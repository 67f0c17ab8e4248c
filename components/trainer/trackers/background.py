"""A tracker that training never waits for: told in a thread, and given up where it fails."""

import logging
import queue
import threading
from collections.abc import Callable, Mapping
from typing import Any

from penstock.components.errors import DataError, PenstockError, counted
from penstock.components.trainer.trackers.tracker import State, Tracker, redacted

logger = logging.getLogger(__name__)

# Calls that wait for a server that is away: at one in five seconds, an hour and more.
_MAX_WAITING = 1000
_MAX_CHARACTERS = 300


class BackgroundTracker:
    """Passes every call on, in order, in a thread, to a tracker that is opened in it.

    Where the tracker fails, it is told no more: one line says so, `failure` keeps it, and training
    goes on. A server that is away for a while loses nothing. Training waits `patience_seconds` for
    the tracker to open, and for its end.

    Attributes:
        failure: Why not all has reached the tracker; None where it has.

    Raises:
        DataError: It does not open: nothing is lost yet, and a wrong address should be seen.
    """

    def __init__(
        self, open_tracker: Callable[[], Tracker], *, name: str, patience_seconds: float
    ) -> None:
        self.failure: str | None = None
        self._name = name
        self._patience_seconds = patience_seconds
        self._calls: queue.Queue[tuple[str, tuple[Any, ...]]] = queue.Queue(_MAX_WAITING)
        self._lock = threading.Lock()
        opened: queue.Queue[Tracker | Exception] = queue.Queue()
        # A daemon: a server that never answers must not keep the process from its end.
        self._thread = threading.Thread(
            target=self._run, args=(open_tracker, opened), name=f"penstock-{name}", daemon=True
        )
        self._thread.start()
        tracker = _wait_for(opened, name, patience_seconds)
        self.run, self.url, self.continued = tracker.run, tracker.url, tracker.continued

    def params(self, values: Mapping[str, str]) -> None:
        """Pass options on."""
        self._pass_on("params", values)

    def metrics(self, values: Mapping[str, float], step: int) -> None:
        """Pass figures on."""
        self._pass_on("metrics", values, step)

    def file(self, name: str, text: str) -> None:
        """Pass a file on."""
        self._pass_on("file", name, text)

    def end(self, state: State) -> None:
        """Pass the end on, and wait for it, but not for ever."""
        self._pass_on("end", state)
        self._thread.join(self._patience_seconds)
        if self._thread.is_alive():
            self._fail(
                f"no answer within {self._patience_seconds:g} s at the end, "
                f"{counted(self._calls.qsize(), 'call')} not sent"
            )

    def _pass_on(self, method: str, *arguments: Any) -> None:
        if self.failure is not None:
            return
        try:
            self._calls.put_nowait((method, arguments))
        except queue.Full:
            self._fail(f"no answer while {_MAX_WAITING} calls came up")

    def _run(
        self, open_tracker: Callable[[], Tracker], opened: "queue.Queue[Tracker | Exception]"
    ) -> None:
        try:
            tracker = open_tracker()
        except Exception as error:  # whatever a tracker's library raises
            opened.put(error)
            return
        opened.put(tracker)
        method = ""
        while method != "end" and self.failure is None:
            method, arguments = self._calls.get()
            try:
                getattr(tracker, method)(*arguments)
            except Exception as error:  # whatever a tracker's library raises
                self._fail(_short(error))

    def _fail(self, why: str) -> None:
        with self._lock:
            if self.failure is not None:
                return
            self.failure = why
        logger.warning("%s failed, training goes on without it: %s", self._name, why)


def _wait_for(opened: "queue.Queue[Tracker | Exception]", name: str, seconds: float) -> Tracker:
    try:
        result = opened.get(timeout=seconds)
    except queue.Empty:
        raise DataError(
            f"{name} does not answer within {seconds:g} s: is its server up and reached from here?"
        ) from None
    if isinstance(result, PenstockError):
        raise result
    if isinstance(result, Exception):
        raise DataError(f"{name} cannot be opened: {_short(result)}") from result
    return result


def _short(error: Exception) -> str:
    """The first line of an error, without keys."""
    text = str(error).strip().split("\n", 1)[0] or type(error).__name__
    return redacted(text)[:_MAX_CHARACTERS]
