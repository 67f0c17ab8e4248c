"""A stand-in for a Kubeflow Pipelines server, on loopback: no cluster can run in the tests.

It answers the requests of the v2beta1 API that `submit` sends, and stores them; it runs nothing.
"""

import pytest
from json_server import JsonServer
from typer.testing import CliRunner

from penstock.pipelines.cli.main import app

PIPELINE = """\
pipelineInfo: {name: small}
root:
  dag:
    tasks:
      make-numbers: {taskInfo: {name: make.numbers}, componentRef: {name: comp-make-numbers}}
      trainer: {taskInfo: {name: Trainer}, componentRef: {name: comp-trainer}}
  inputDefinitions:
    parameters:
      how_many: {parameterType: NUMBER_INTEGER, defaultValue: 3.0, isOptional: true}
      rate: {parameterType: NUMBER_DOUBLE, defaultValue: 0.5, isOptional: true}
      note: {parameterType: STRING}
components:
  comp-make-numbers: {executorLabel: exec-make-numbers}
  comp-trainer: {executorLabel: exec-trainer}
deploymentSpec:
  executors:
    exec-make-numbers: {container: {image: a}}
    exec-trainer: {container: {image: a}}
schemaVersion: 2.1.0
sdkVersion: kfp-2.5.0
---
platforms:
  kubernetes:
    deploymentSpec:
      executors:
        exec-trainer: {nodeSelector: {labels: {pool: gpu}}}
"""


def call(*arguments):
    """Runs a command in this process; returns its exit code, output and exception."""
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


class FakeServer(JsonServer):
    """Answers requests with the values of its attributes, which tests may change."""

    def __init__(self):
        super().__init__()
        self.experiments = []
        self.health = (200, {"multi_user": False})
        self.create_run = (200, {"run_id": "run-1"})
        # Each poll takes one answer; the last answer is repeated.
        self.runs = [(200, {"run_id": "run-1", "state": "SUCCEEDED"})]
        self.finished = []

    def answer(self, method, path, body):
        if path == "/apis/v2beta1/healthz":
            return self.health
        if path == "/apis/v2beta1/experiments" and method == "GET":
            return 200, {"experiments": self.experiments}
        if path == "/apis/v2beta1/experiments":
            return 200, {"experiment_id": "new", **body}
        if path == "/apis/v2beta1/runs" and method == "GET":
            return 200, {"runs": self.finished}
        if path == "/apis/v2beta1/runs":
            return self.create_run
        if path == "/apis/v2beta1/runs/run-1":
            return self.runs.pop(0) if len(self.runs) > 1 else self.runs[0]
        return 404, {"message": f"nothing at {path}"}


@pytest.fixture
def server(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))  # kfp stores settings there
    for name in ("PENSTOCK_KFP_TOKEN", "PENSTOCK_KFP_TOKEN_FILE", "KF_PIPELINES_SA_TOKEN_PATH"):
        monkeypatch.delenv(name, raising=False)
    server = FakeServer()
    yield server
    server.close()


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "small.yaml"
    path.write_text(PIPELINE)
    return path
