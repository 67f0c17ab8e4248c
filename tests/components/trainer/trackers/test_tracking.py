import sys

import pytest
import tensorflow as tf

from penstock.components.errors import DataError, UsageError
from penstock.components.trainer.record import EpochRecord
from penstock.components.trainer.trackers.background import redacted
from penstock.components.trainer.trackers.options import TrackOptions
from penstock.components.trainer.trackers.tracking import (
    TrackerRecord,
    Tracking,
    read_tracker_record,
    write_tracker_record,
)

EPOCH = EpochRecord(1, 4, 4, {"loss": 0.5, "val_loss": 0.25}, 0.1, 2.0, 0.5, None, None)


def events(folder):
    (file,) = folder.iterdir()
    return [
        (value.tag, event.step, tf.make_ndarray(value.tensor).item())
        for event in tf.compat.v1.train.summary_iterator(str(file))
        for value in event.summary.value
    ]


def test_tensorboard_is_always_told(tmp_path):
    with Tracking(TrackOptions(), str(tmp_path), None) as tracking:
        tracking.begin({"train": {"epochs": 3}, "seed": 1}, [EPOCH])
        tracking.metrics({"utilisation/memory_mib": 64.0}, 6)
        tracking.file("training.json", "{}")
    tag, step, text = events(tmp_path / "train")[0]
    assert (tag, step) == ("params", 0)
    assert text == b"| option | value |\n|---|---|\n| train.epochs | 3 |\n| seed | 1 |"
    assert [(tag, step) for tag, step, _ in events(tmp_path / "train")[1:]] == [
        ("epoch_loss", 4),
        ("epoch_learning_rate", 4),
        ("epoch_seconds_per_step", 4),
        ("utilisation/memory_mib", 6),
    ]
    assert events(tmp_path / "validation") == [("epoch_loss", 4, 0.25)]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["train", "validation"]


def test_a_missing_package_is_one_line_with_its_command(tmp_path, monkeypatch):
    monkeypatch.delitem(sys.modules, "penstock.components.trainer.trackers.mlflow", raising=False)
    monkeypatch.setitem(sys.modules, "mlflow", None)
    with pytest.raises(UsageError) as error:
        Tracking(TrackOptions(kind="mlflow"), str(tmp_path), None)
    assert str(error.value) == (
        "track.kind=mlflow needs a package that is not installed (mlflow): "
        "pip install 'penstock-tfx[mlflow]'"
    )


def test_a_missing_address_is_said(tmp_path, monkeypatch):
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    with pytest.raises(UsageError, match=r"needs track\.uri, or MLFLOW_TRACKING_URI"):
        Tracking(TrackOptions(kind="mlflow"), str(tmp_path), None)


def test_a_trackers_record(tmp_path):
    assert read_tracker_record(tmp_path) is None
    record = TrackerRecord("mlflow", "abc", "http://host/abc", failure="away")
    write_tracker_record(tmp_path, record)
    assert read_tracker_record(tmp_path) == record
    (tmp_path / "tracker.json").write_text("[]")
    with pytest.raises(DataError, match=r"tracker\.json: not a tracker's record"):
        read_tracker_record(tmp_path)


def test_keys_and_logins_are_taken_out(monkeypatch):
    monkeypatch.setenv("MLFLOW_TRACKING_TOKEN", "planted-key")
    monkeypatch.setenv("MLFLOW_TRACKING_PASSWORD", "planted-password")
    text = "key planted-key, planted-password at https://me:secret@host/path?a=b@c"
    assert redacted(text) == "key ***, *** at https://***@host/path?a=b@c"
