"""A Kubeflow Pipelines server on loopback, a fake: no cluster can run in the tests.

It answers the requests of the v2beta1 API that `submit` makes, and keeps what
arrives; it runs nothing.
"""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

import pytest

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


class FakeServer(ThreadingHTTPServer):
    """Answers what `answers` says, and keeps what arrives in `requests`."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), _Handler)
        self.requests = []
        self.experiments = []
        self.health = (200, {"multi_user": False})
        self.create_run = (200, {"run_id": "run-1"})
        # One a poll; the last stays.
        self.runs = [(200, {"run_id": "run-1", "state": "SUCCEEDED"})]
        self.finished = []
        self.host = f"http://127.0.0.1:{self.server_port}"

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


class _Handler(BaseHTTPRequestHandler):
    def _respond(self):
        length = int(self.headers.get("Content-Length") or 0)
        body = json.loads(self.rfile.read(length)) if length else None
        address = urlsplit(self.path)
        query = {key: values[0] for key, values in parse_qs(address.query).items()}
        token = self.headers.get("Authorization")
        self.server.requests.append((self.command, address.path, query, body, token))
        status, answer = self.server.answer(self.command, address.path, body)
        content = answer.encode() if isinstance(answer, str) else json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    do_GET = do_POST = _respond  # noqa: N815  # the names that http.server calls

    def log_message(self, *_):
        pass


@pytest.fixture
def server(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))  # kfp keeps settings there
    for name in ("PENSTOCK_KFP_TOKEN", "PENSTOCK_KFP_TOKEN_FILE", "KF_PIPELINES_SA_TOKEN_PATH"):
        monkeypatch.delenv(name, raising=False)
    server = FakeServer()
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "small.yaml"
    path.write_text(PIPELINE)
    return path
