import logging
from types import SimpleNamespace

from penstock.components import activity


def test_the_log_gets_milestones_and_else_a_line_every_30_seconds(monkeypatch, caplog):
    clock = 0.0
    monkeypatch.setattr(activity, "time", SimpleNamespace(perf_counter=lambda: clock))
    monkeypatch.setattr(activity, "_listener", activity.paced(activity.logger.info))
    monkeypatch.setattr(activity, "SECONDS_BETWEEN_LINES", 30.0)
    clock = 100.0
    with caplog.at_level(logging.INFO, logger=activity.logger.name):
        activity.tell("step 1")
        activity.tell("epoch 1", is_milestone=True)
        clock = 129.9
        activity.tell("step 2")
        clock = 130.0
        activity.tell("step 3")
        activity.tell("step 4")
    assert caplog.messages == ["epoch 1", "step 3"]


def test_a_listener_gets_everything_and_only_in_its_block(caplog):
    heard = []
    with activity.listening(heard.append):
        activity.tell("step 1")
    with caplog.at_level(logging.INFO, logger=activity.logger.name):
        activity.tell("over", is_milestone=True)
    assert [told.text for told in heard] == ["step 1"]
    assert caplog.messages == ["over"]
