"""A tracker in a thread of its own, so that training never waits for it or fails with it."""

import logging
import os
import queue
import re
import threading
from collections.abc import Callable, Mapping
from typing import Any, Literal, Protocol

from penstock.components.errors import DataError, PenstockError, counted

logger = logging.getLogger(__name__)

# Maximum number of queued calls while a server does not answer: an hour at a call every 5 seconds.
_MAX_WAITING = 1000
_MAX_CHARACTERS = 300
_SECRETS = ("MLFLOW_TRACKING_PASSWORD", "MLFLOW_TRACKING_TOKEN")
_LOGIN = re.compile(r"://[^/@\s]*@")
_HIDDEN = "***"

State = Literal["finished", "failed", "interrupted"]


class Tracker(Protocol):
    """A run in a tracker. If a method raises any exception, the tracker has failed."""

    run: str  # the tracker's id of the run, with which a resumed training continues it
    url: str | None  # None if the tracker has no web page
    continued: bool  # whether the run already has params and earlier epochs

    def params(self, values: Mapping[str, str]) -> None: ...

    def metrics(self, values: Mapping[str, float], step: int) -> None: ...

    def file(self, name: str, text: str) -> None: ...

    def end(self, state: State) -> None:
        """Closes the run; blocks until everything is sent."""


class BackgroundTracker:
    """Forwards each call in order to a tracker, which is opened and called in a thread.

    If the tracker fails, it gets no more calls: one line is logged and kept in `failure`, and
    training continues. If a server is down for a while, nothing is lost. Training waits up to
    `patience_seconds` for the tracker to open, and again for it to close.
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
        # A daemon thread: a server that never answers must not keep the process from exiting.
        self._thread = threading.Thread(
            target=self._run, args=(open_tracker, opened), name=f"penstock-{name}", daemon=True
        )
        self._thread.start()
        tracker = _wait_for(opened, name, patience_seconds)
        self.run, self.url, self.continued = tracker.run, tracker.url, tracker.continued

    def params(self, values: Mapping[str, str]) -> None:
        self._pass_on("params", values)

    def metrics(self, values: Mapping[str, float], step: int) -> None:
        self._pass_on("metrics", values, step)

    def file(self, name: str, text: str) -> None:
        self._pass_on("file", name, text)

    def end(self, state: State) -> None:
        """Forwards the end and waits up to `patience_seconds` for it."""
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
        except Exception as error:  # any error of the tracker's library
            opened.put(error)
            return
        opened.put(tracker)
        method = ""
        while method != "end" and self.failure is None:
            method, arguments = self._calls.get()
            try:
                getattr(tracker, method)(*arguments)
            except Exception as error:  # any error of the tracker's library
                self._fail(_short(error))

    def _fail(self, why: str) -> None:
        with self._lock:
            if self.failure is not None:
                return
            self.failure = why
        logger.warning("%s failed, training goes on without it: %s", self._name, why)


def redacted(text: str) -> str:
    for name in _SECRETS:
        if secret := os.environ.get(name):
            text = text.replace(secret, _HIDDEN)
    return _LOGIN.sub(f"://{_HIDDEN}@", text)


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
    text = str(error).strip().split("\n", 1)[0] or type(error).__name__
    return redacted(text)[:_MAX_CHARACTERS]
