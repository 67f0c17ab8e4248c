import threading

import pytest

from penstock.components.errors import DataError, UsageError
from penstock.components.trainer.trackers.background import BackgroundTracker


class Told:
    """A tracker that keeps what it is told, and fails or hangs when it should."""

    run, url, continued = "run-1", "http://tracker/run-1", False

    def __init__(self, fail_at=None, hang_at=None):
        self.calls = []
        self.fail_at = fail_at
        self.hang_at = hang_at
        self.hangs, self.released = threading.Event(), threading.Event()

    def _told(self, *call):
        if call[0] == self.fail_at:
            raise ConnectionError("http://me:planted@tracker is away\nTraceback: ...")
        if call[0] == self.hang_at:
            self.hangs.set()
            self.released.wait(1000)
        self.calls.append(call)

    def params(self, values):
        self._told("params", values)

    def metrics(self, values, step):
        self._told("metrics", values, step)

    def file(self, name, text):
        self._told("file", name, text)

    def end(self, state):
        self._told("end", state)


def background(tracker):
    return BackgroundTracker(lambda: tracker, name="mlflow", patience_seconds=500)


def tell_all(tracker):
    tracker.params({"a": "1"})
    tracker.metrics({"loss": 0.5}, 4)
    tracker.file("training.json", "{}")
    tracker.end("finished")


def test_all_is_passed_on_in_order():
    told = Told()
    tracker = background(told)
    assert (tracker.run, tracker.url, tracker.continued) == ("run-1", "http://tracker/run-1", False)
    tell_all(tracker)
    assert told.calls == [
        ("params", {"a": "1"}),
        ("metrics", {"loss": 0.5}, 4),
        ("file", "training.json", "{}"),
        ("end", "finished"),
    ]
    assert tracker.failure is None


def test_a_tracker_that_fails_is_told_no_more_and_one_line_says_so(our_messages):
    told = Told(fail_at="metrics")
    tracker = background(told)
    tell_all(tracker)
    assert told.calls == [("params", {"a": "1"})]
    assert tracker.failure == "http://***@tracker is away"
    (line,) = our_messages()
    assert line == "mlflow failed, training goes on without it: http://***@tracker is away"


def test_a_tracker_that_hangs_holds_up_nothing_but_its_patience_at_the_end():
    told = Told(hang_at="metrics")
    tracker = background(told)
    tracker.params({})
    for step in range(500):
        tracker.metrics({"loss": 0.5}, step)
    told.hangs.wait()
    tracker._patience_seconds = 0.1
    tracker.end("finished")  # returns all the same: it is released below
    assert tracker.failure == "no answer within 0.1 s at the end, 500 calls not sent"
    told.released.set()


def test_a_tracker_that_comes_back_loses_nothing():
    told = Told(hang_at="params")
    tracker = background(told)
    tracker.params({})
    tracker.metrics({"loss": 0.5}, 4)
    threading.Timer(0.2, told.released.set).start()
    tracker.end("finished")
    assert [call[0] for call in told.calls] == ["params", "metrics", "end"]
    assert tracker.failure is None


def test_what_waits_is_bounded(caplog):
    told = Told(hang_at="params")
    tracker = background(told)
    tracker.params({})
    for step in range(1100):
        tracker.metrics({}, step)
    assert tracker.failure == "no answer while 1000 calls came up"
    assert len(caplog.messages) == 1
    told.released.set()


def test_a_tracker_that_does_not_open_is_said_before_training(monkeypatch):
    monkeypatch.setenv("MLFLOW_TRACKING_TOKEN", "planted")

    def refused():
        raise ConnectionError("token planted refused\nmore")

    with pytest.raises(DataError, match=r"^mlflow cannot be opened: token \*\*\* refused$"):
        BackgroundTracker(refused, name="mlflow", patience_seconds=500)
    released = threading.Event()
    with pytest.raises(DataError, match=r"^mlflow does not answer within 0.1 s: is its server up"):
        BackgroundTracker(lambda: released.wait(1000), name="mlflow", patience_seconds=0.1)
    released.set()

    def misused():
        raise UsageError("mlflow needs a key")

    with pytest.raises(UsageError, match=r"^mlflow needs a key$"):
        BackgroundTracker(misused, name="mlflow", patience_seconds=500)
