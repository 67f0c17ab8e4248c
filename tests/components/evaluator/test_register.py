"""Registration of a pushed model with a real MLflow server."""

import subprocess
import sys
import time
import urllib.error
import urllib.request

import pytest
from free_ports import free_port
from tfx.types.standard_artifacts import Examples, ModelEvaluation, PushedModel

from penstock.components.errors import DataError
from penstock.components.evaluator.evaluation import EVALUATION_NAME, Evaluation
from penstock.components.evaluator.register import Register
from penstock.components.gates.options import RegisterOptions
from penstock.components.gates.served_model import DIGEST_PROPERTY
from penstock.components.plain import to_json
from penstock.components.tfrecord.manifest import MANIFEST_PROPERTY

register = Register.EXECUTOR_SPEC.executor_class._FUNCTION


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """The address of an MLflow server with its registry and artifacts in a folder."""
    folder = tmp_path_factory.mktemp("mlflow")
    port = str(free_port())
    store = ["--backend-store-uri", f"sqlite:///{folder}/mlflow.db", "--workers", "1"]
    store += ["--artifacts-destination", str(folder / "stored"), "--port", port]
    command = [sys.executable, "-m", "mlflow", "server", *store]
    with (folder / "log").open("w") as log:
        started = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        while not _answers(f"http://127.0.0.1:{port}/health"):
            assert started.poll() is None, (folder / "log").read_text()
            time.sleep(0.1)
        yield f"http://127.0.0.1:{port}"
    finally:
        started.terminate()
        started.wait()


def _answers(address):
    try:
        return urllib.request.urlopen(address).status == 200
    except urllib.error.URLError:
        return False


@pytest.fixture
def pushed(tmp_path):
    """A function that registers a pushed model, together with its evaluation and its Examples."""
    (tmp_path / "evaluation").mkdir()
    found = Evaluation({"overall": {"auc": 0.75, "example_count": 40.0}})
    (tmp_path / "evaluation" / EVALUATION_NAME).write_text(found.to_json())
    (tmp_path / "model").mkdir()
    (tmp_path / "model/saved_model.pb").write_text("a model")
    artifacts = {
        "pushed": PushedModel(), "evaluation": ModelEvaluation(), "examples": Examples(),
    }  # fmt: skip
    for name, artifact in artifacts.items():
        artifact.uri = str(tmp_path / ("model" if name == "pushed" else name))
    artifacts["examples"].set_string_custom_property(MANIFEST_PROPERTY, "d1")
    model = artifacts["pushed"]
    model.set_string_custom_property("pushed_destination", "/serving/7")

    def run(uri, digest="m1", was_pushed=1):
        model.set_int_custom_property("pushed", was_pushed)
        model.set_string_custom_property(DIGEST_PROPERTY, digest)
        options = RegisterOptions(uri=uri, name="churn", code="c1", report="/runs/report.html")
        return register(**artifacts, options=to_json(options))["registered"]

    return run


@pytest.mark.slow
def test_pushed_model_becomes_the_version_of_the_alias(server, pushed):
    from mlflow import MlflowClient

    assert pushed(server) == "models:/churn/1"
    assert pushed(server, "m2") == "models:/churn/2"
    assert pushed(server, "m2") == "models:/churn/2"  # a retry after a kill
    client = MlflowClient(server, server)
    version = client.get_model_version_by_alias("churn", "champion")
    assert version.version == "2"
    assert version.tags == {
        "penstock.model": "m2",
        "penstock.data": "d1",
        "penstock.code": "c1",
        "penstock.pushed": "/serving/7",
        "penstock.report": "/runs/report.html",
    }
    run = client.get_run(version.run_id)
    assert run.data.metrics == {"auc": 0.75, "example_count": 40.0}
    assert [one.path for one in client.list_artifacts(version.run_id, "model")] == [
        "model/saved_model.pb"
    ]


def test_model_that_was_not_pushed_is_not_registered(pushed):
    assert pushed("http://127.0.0.1:9", was_pushed=0) == ""


@pytest.mark.slow
def test_registry_that_does_not_answer_is_one_line(pushed, monkeypatch):
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    with pytest.raises(DataError, match=r"^register.uri=http://me:\*+@127.0.0.1:9: .*; run again"):
        pushed("http://me:secret@127.0.0.1:9")
