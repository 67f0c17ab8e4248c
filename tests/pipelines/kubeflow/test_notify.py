"""The message at the end of a run; the webhook is an HTTP server on loopback."""

import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
import yaml
from ml_metadata import metadata_store
from ml_metadata.proto import metadata_store_pb2 as mlmd
from tfx.dsl.components.common.importer import Importer
from tfx.orchestration.pipeline import Pipeline
from tfx.types.standard_artifacts import Examples

from penstock.components.errors import DataError
from penstock.pipelines.kubeflow.compiled_file import read_compiled_file
from penstock.pipelines.kubeflow.ir import compile_ir
from penstock.pipelines.kubeflow.notify import notify
from penstock.pipelines.kubeflow.pipeline_yaml import write_kubeflow
from penstock.pipelines.kubeflow.placement import Placement
from penstock.pipelines.kubeflow.plan import plan_ir
from penstock.pipelines.kubeflow.resources import Notify
from penstock.pipelines.runs.metadata_store import SqliteStore
from tests.pipelines.kubeflow.placements import IMAGE

LINK = "https://kubeflow.example/#/runs/details/RUN_ID"
Execution = mlmd.Execution


class _Webhook(BaseHTTPRequestHandler):
    def do_POST(self):  # the name that http.server calls
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.messages.append(json.loads(body))
        self.send_response(self.server.answers.pop(0) if self.server.answers else 200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


@pytest.fixture
def webhook(monkeypatch):
    server = HTTPServer(("127.0.0.1", 0), _Webhook)
    server.messages, server.answers = [], []
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    monkeypatch.setenv("PENSTOCK_WEBHOOK", f"http://127.0.0.1:{server.server_port}/secret-token")
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def store_with(path, **nodes):
    """Writes a run `r1` of pipeline `taxi` with nodes in these states."""
    store = SqliteStore(str(path / "metadata.sqlite"))
    opened = metadata_store.MetadataStore(store.connection_config())
    kinds = {
        name: opened.put_context_type(mlmd.ContextType(name=name))
        for name in ("pipeline", "pipeline_run", "node")
    }
    kind = opened.put_execution_type(mlmd.ExecutionType(name="work"))
    for node, state in nodes.items():
        names = {"pipeline": "taxi", "pipeline_run": "r1", "node": f"taxi.{node}"}
        contexts = []
        for name, value in names.items():
            found = opened.get_context_by_type_and_name(name, value)
            contexts.append(found or mlmd.Context(type_id=kinds[name], name=value))
        opened.put_execution(
            mlmd.Execution(type_id=kind, last_known_state=state), [], contexts, True
        )
    return store


def send(store, **more):
    options = {"nodes": ["A", "B"], "link": LINK, "executor_input": None}
    return notify(store, "r1", pipeline="taxi", **{**options, **more})


def test_webhook_gets_verdict_and_link(tmp_path, webhook):
    line = send(store_with(tmp_path, A=Execution.COMPLETE, B=Execution.CACHED))

    [message] = webhook.messages
    assert message == {
        "text": line,
        "pipeline": "taxi",
        "run": "r1",
        "verdict": "Done",
        "sentence": "All nodes ran; no model was trained.",
        "link": "https://kubeflow.example/#/runs/details/r1",
    }
    assert line == (
        "taxi: Done. All nodes ran; no model was trained. "
        "https://kubeflow.example/#/runs/details/r1"
    )


@pytest.mark.parametrize(
    ("nodes", "verdict", "words"),
    [
        ({"A": Execution.FAILED}, "Failed", "A failed"),
        ({"A": Execution.RUNNING}, "Failed", "A began and was lost with its pod"),
        ({"A": Execution.COMPLETE}, "Done", "Did not run: B."),
        ({}, "Failed", "No node began"),
    ],
)
def test_message_of_a_run_that_failed_says_where(tmp_path, webhook, nodes, verdict, words):
    send(store_with(tmp_path, **nodes))

    [message] = webhook.messages
    assert message["verdict"] == verdict
    assert words in message["sentence"]


def test_address_of_a_webhook_that_fails_is_not_shown(tmp_path, webhook):
    webhook.answers = [404]
    with pytest.raises(DataError, match="HTTP 404") as caught:
        send(store_with(tmp_path, A=Execution.COMPLETE))
    assert "secret-token" not in str(caught.value)


def test_report_of_the_run_is_its_html(tmp_path, webhook):
    store = store_with(tmp_path, A=Execution.COMPLETE, B=Execution.COMPLETE)
    page = tmp_path / "kfp/html"
    outputs = {"artifacts": {"html": {"artifacts": [{"uri": str(page)}]}}}
    send(store, executor_input=json.dumps({"outputs": outputs}))
    assert "All nodes ran; no model was trained." in page.read_text()


def test_exit_handler_runs_the_task_after_all_others(tmp_path):
    placement = Placement(notify=Notify(webhook_secret="chat", link=LINK))
    node = Importer("/data", Examples).with_id("data")
    plan = plan_ir(compile_ir(Pipeline("taxi", "/r", components=[node])))
    out = tmp_path / "p.yaml"
    write_kubeflow(plan, out, image=IMAGE, placement=placement)
    spec, platform = yaml.safe_load_all(out.read_text())

    [handler] = [n for n in spec["root"]["dag"]["tasks"] if n != "notify"]
    task = spec["root"]["dag"]["tasks"]["notify"]
    assert task["dependentTasks"] == [handler]
    assert task["triggerPolicy"] == {"strategy": "ALL_UPSTREAM_TASKS_COMPLETED"}
    assert task["retryPolicy"]["backoffMaxDuration"] == "2592000s"
    executors = spec["deploymentSpec"]["executors"]
    assert executors["exec-notify"]["container"]["command"] == ["penstock", "notify"]
    secrets = platform["platforms"]["kubernetes"]["deploymentSpec"]["executors"]["exec-notify"]
    assert secrets["secretAsEnv"] == [
        {
            "secretName": "chat",
            "keyToEnv": [{"secretKey": "url", "envVar": "PENSTOCK_WEBHOOK"}],
        }
    ]
    assert read_compiled_file(out).tasks == {"data": "data", "notify": "notify"}
