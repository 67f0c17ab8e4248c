"""A real MLflow server, with SQLite, on this machine."""

import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest

from penstock.components.errors import DataError
from penstock.components.trainer.interrupt import TrainingInterruptedError
from penstock.components.trainer.loop import train
from penstock.components.trainer.options import TrainOptions
from penstock.components.trainer.trackers.options import TrackOptions
from penstock.components.trainer.trackers.tracking import TrackerRecord, read_tracker_record
from tests.free_ports import free_port

pytestmark = pytest.mark.slow

TOKEN = "planted-mlflow-token-0123456789"


class Server:
    """`mlflow server` as a process of its own."""

    def __init__(self, folder):
        self.folder = folder
        self.port = free_port()
        self.uri = f"http://127.0.0.1:{self.port}"
        from mlflow import MlflowClient  # half a second, which only this file needs

        self.client = MlflowClient(tracking_uri=self.uri)

    def start(self):
        command = [
            *(sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1"),
            *("--port", str(self.port), "--workers", "1"),
            *("--backend-store-uri", f"sqlite:///{self.folder}/mlflow.db"),
            *("--artifacts-destination", str(self.folder / "artifacts")),
        ]
        with (self.folder / "server.log").open("ab") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
        end = time.monotonic() + 500
        while time.monotonic() < end:
            try:
                urllib.request.urlopen(f"{self.uri}/health", timeout=5).close()
            except OSError:
                assert self.process.poll() is None, (self.folder / "server.log").read_text()
                time.sleep(0.3)
            else:
                return
        raise AssertionError((self.folder / "server.log").read_text())

    def stop(self):
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def values(self, run, metric):
        """(step, value) of a metric, in the order of the steps."""
        history = self.client.get_metric_history(run, metric)
        return sorted((point.step, point.value) for point in history)


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    server = Server(tmp_path_factory.mktemp("mlflow"))
    server.start()
    yield server
    server.stop()


@pytest.fixture
def run(tmp_path, toy, server, monkeypatch):
    """Trains the toy model; gives its record and its ModelRun's folder."""
    monkeypatch.setenv("MLFLOW_TRACKING_TOKEN", TOKEN)

    def run(name, on_epoch=None, uri=server.uri, patience_seconds=30.0):
        trained = train(
            toy.build_model,
            toy.dataset().repeat(),
            toy.dataset(),
            options=TrainOptions(epochs=2, steps_per_epoch=4),
            model_run_dir=str(tmp_path / name),
            resume_dir=str(tmp_path / "resume"),
            on_epoch=on_epoch,
            track=TrackOptions(
                kind="mlflow", experiment="toy", uri=uri, patience_seconds=patience_seconds
            ),
            params={"seed": 1, "leak": TOKEN},
        )
        return trained.record, tmp_path / name

    return run


def stop_after(epoch):
    def on_epoch(record):
        if record.epoch == epoch:
            os.kill(os.getpid(), signal.SIGTERM)

    return on_epoch


def test_the_server_has_what_every_tracker_is_told(run, server, tmp_path):
    record, folder = run("1")
    told = read_tracker_record(folder)
    found = server.client.get_run(told.run)
    experiment = server.client.get_experiment(found.info.experiment_id)
    assert experiment.name == "toy"
    url = f"{server.uri}/#/experiments/{experiment.experiment_id}/runs/{told.run}"
    assert told == TrackerRecord("mlflow", told.run, url, failure=None)
    assert found.info.status == "FINISHED"
    assert found.data.params["train.epochs"] == "2"
    assert found.data.params["seed"] == "1"
    losses = [(epoch.step, epoch.metrics["val_loss"]) for epoch in record.epochs]
    assert server.values(told.run, "epoch_val_loss") == losses
    assert server.values(told.run, "utilisation/seconds_per_step")[-1][0] == 8
    for name in ("training.json", "utilisation.json"):
        path = server.client.download_artifacts(told.run, name, str(tmp_path))
        assert Path(path).read_bytes() == (folder / name).read_bytes()


def test_no_key_is_in_any_file_of_the_run_or_of_the_server(run, server, tmp_path):
    run("1")
    written = [
        path for folder in (tmp_path, server.folder) for path in folder.rglob("*") if path.is_file()
    ]
    assert {"training.json", "tracker.json", "mlflow.db"} <= {path.name for path in written}
    assert not [path for path in written if TOKEN.encode() in path.read_bytes()]


def test_no_key_is_in_any_artifact_log_or_metadata_of_a_pipeline(server, tmp_path, penstock):
    root = tmp_path / "taxi"
    done = penstock(
        *("run", "taxi", "--set", f"root={root}"),
        *("--set", "train.max_steps=40", "--set", "train.steps_per_epoch=40"),
        *("--set", "track.kind=mlflow", "--set", f"track.uri={server.uri}"),
        env={**os.environ, "MLFLOW_TRACKING_TOKEN": TOKEN},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert TOKEN not in done.stdout + done.stderr
    (record,) = root.glob("pipeline/Trainer/model_run/*/tracker.json")
    assert json.loads(record.read_text())["failure"] is None
    assert (record.parent / "utilisation.json").exists()
    files = [path for path in root.rglob("*") if path.is_file()]
    assert root / "metadata.sqlite" in files
    assert not [path for path in files if TOKEN.encode() in path.read_bytes()]


def test_a_resumed_training_goes_on_with_its_run(run, server, tmp_path):
    with pytest.raises(TrainingInterruptedError):
        run("1", on_epoch=stop_after(1))
    before = read_tracker_record(tmp_path / "1")
    assert server.client.get_run(before.run).info.status == "KILLED"
    record, folder = run("2")
    assert record.resumed_from == 4
    assert read_tracker_record(folder).run == before.run
    assert server.client.get_run(before.run).info.status == "FINISHED"
    assert [step for step, _ in server.values(before.run, "epoch_loss")] == [4, 8]


def test_a_server_that_dies_does_not_stop_training_and_is_on_record(
    run, tmp_path, tmp_path_factory, monkeypatch, caplog
):
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "1")
    other = Server(tmp_path_factory.mktemp("dies"))
    other.start()
    record, folder = run("1", on_epoch=lambda _: other.stop(), uri=other.uri)
    assert record.stopped == "all 8 steps done"
    failure = read_tracker_record(folder).failure
    assert f"host='127.0.0.1', port={other.port}" in failure
    (line,) = [line for line in caplog.messages if "training goes on" in line]
    assert line == f"mlflow failed, training goes on without it: {failure}"


def test_a_server_that_was_never_there_is_said_before_training(run, tmp_path):
    with pytest.raises(DataError, match=r"^mlflow does not answer within 1 s: is its server up"):
        run("1", uri="http://127.0.0.1:9", patience_seconds=1.0)
    assert not (tmp_path / "1" / "training.json").exists()
