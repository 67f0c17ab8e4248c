"""Comet's offline mode: what stands in the archive that `comet upload` would send."""

import json
import os
import signal
import zipfile

import pytest

from penstock.components.trainer.interrupt import TrainingInterruptedError
from penstock.components.trainer.loop import train
from penstock.components.trainer.options import TrainOptions
from penstock.components.trainer.trackers.options import TrackOptions
from penstock.components.trainer.trackers.tracking import TrackerRecord, read_tracker_record

pytestmark = pytest.mark.ci
KEY = "planted-comet-key-0123456789"
TRACK = TrackOptions(kind="comet", experiment="toy", offline=True)


@pytest.fixture
def run(tmp_path, toy, monkeypatch):
    """Trains the toy model; gives the ModelRun's folder, which has the archive in it."""
    monkeypatch.setenv("COMET_API_KEY", KEY)

    def run(name, on_epoch=None):
        train(
            toy.build_model,
            toy.dataset().repeat(),
            toy.dataset(),
            options=TrainOptions(epochs=2, steps_per_epoch=4),
            model_run_dir=str(tmp_path / name),
            resume_dir=str(tmp_path / "resume"),
            on_epoch=on_epoch,
            track=TRACK,
            params={"seed": 1, "leak": KEY},
        )
        return tmp_path / name

    return run


def archive(folder):
    """All that is in the archive: messages by type, and the texts of its files by name."""
    (path,) = (folder / "comet").glob("*.zip")
    with zipfile.ZipFile(path) as file:
        files = {name: file.read(name) for name in file.namelist()}
    messages = {}
    for line in files.pop("messages.json").splitlines():
        message = json.loads(line)
        messages.setdefault(message["type"], []).append(message["payload"])
    return messages, files


def params(messages):
    return {m["param"]["paramName"]: m["param"]["paramValue"] for m in messages["parameter_msg"]}


def metrics(messages):
    return {(m["metric"]["metricName"], m["metric"]["step"]) for m in messages["metric_msg"]}


def states(messages):
    return [other["value"] for other in messages["log_other"] if other["key"] == "state"]


def test_the_archive_has_what_every_tracker_is_told(run, tmp_path):
    folder = run("1")
    messages, files = archive(folder)
    assert params(messages)["train.epochs"] == "2"
    assert params(messages)["seed"] == "1"
    assert {
        ("epoch_loss", 4),
        ("epoch_val_loss", 8),
        ("epoch_learning_rate", 8),
        ("epoch_input_wait_share", 8),
        ("utilisation/seconds_per_step", 8),
    } <= metrics(messages)
    named = {
        message["additional_params"]["fileName"]: files[message["file_path"]]
        for message in messages["file_upload"]
    }
    assert set(named) == {"training.json", "utilisation.json"}
    for name, content in named.items():
        assert content == (folder / name).read_bytes()
    assert states(messages) == ["finished"]
    experiment = json.loads(files["experiment.json"])
    assert experiment["project_name"] == "toy"
    record = TrackerRecord("comet", experiment["offline_id"], url=None, failure=None)
    assert read_tracker_record(folder) == record


def test_no_key_is_in_any_file_of_the_run(run, tmp_path):
    folder = run("1")
    messages, files = archive(folder)
    assert KEY not in json.dumps(messages)
    assert not [name for name, content in files.items() if KEY.encode() in content]
    written = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(written) > 8
    assert not [path for path in written if KEY.encode() in path.read_bytes()]


def test_a_resumed_training_goes_on_with_its_experiment(run, tmp_path):
    def stop(record):
        if record.epoch == 1:
            os.kill(os.getpid(), signal.SIGTERM)

    with pytest.raises(TrainingInterruptedError):
        run("1", on_epoch=stop)
    before = read_tracker_record(tmp_path / "1")
    assert states(archive(tmp_path / "1")[0]) == ["interrupted"]
    messages, files = archive(run("2"))
    assert read_tracker_record(tmp_path / "2").run == before.run
    experiment = json.loads(files["experiment.json"])
    assert (experiment["offline_id"], experiment["resume_strategy"]) == (before.run, "get")
    assert "seed" not in params(messages)
    assert ("epoch_loss", 8) in metrics(messages)
    assert ("epoch_loss", 4) not in metrics(messages)
    assert states(messages) == ["finished"]
