"""The message at the end of a run; the webhook is an HTTP server on loopback."""

import json

import pytest
from json_server import JsonServer
from tfx.dsl.components.common.importer import Importer
from tfx.types.standard_artifacts import Examples

from penstock.components.errors import DataError
from penstock.pipelines.kubeflow.compiled_file import read_compiled_file
from penstock.pipelines.kubeflow.notify import notify
from penstock.pipelines.kubeflow.placement import Placement
from penstock.pipelines.kubeflow.plan import plan_ir
from penstock.pipelines.kubeflow.resources import Notify
from penstock.pipelines.runs.metadata_store import SqliteStore
from tests.pipelines.kubeflow.placements import Compiled, executor_input, ir_of

LINK = "https://kubeflow.example/#/runs/details/RUN_ID"


@pytest.fixture
def webhook(monkeypatch):
    answers = []
    server = JsonServer(lambda *_: (answers.pop() if answers else 200, {}))
    server.answers = answers
    monkeypatch.setenv("PENSTOCK_WEBHOOK", f"{server.host}/secret-token")
    yield server
    server.close()


@pytest.fixture
def store_with(runs_in, tmp_path):
    """A function that writes a run `r1` of the pipeline `taxi` with nodes in the given states."""

    def write(**nodes):
        runs = runs_in(tmp_path, "taxi")
        for node, state in nodes.items():
            runs.node("r1", node, state)
        return SqliteStore(str(tmp_path / "metadata.sqlite"))

    return write


def send(store, **more):
    options = {"nodes": ["A", "B"], "link": LINK, "executor_input": None}
    return notify(store, "r1", pipeline="taxi", **{**options, **more})


def test_webhook_gets_verdict_and_link(store_with, webhook):
    line = send(store_with(A="done", B="cached"))

    [(*_, message, _)] = webhook.requests
    sentence, link = "All nodes ran; no model was trained.", LINK.replace("RUN_ID", "r1")
    assert line == f"taxi: Done. {sentence} {link}"
    ended = {"pipeline": "taxi", "run": "r1", "verdict": "Done"}
    assert message == {"text": line, **ended, "sentence": sentence, "link": link}


@pytest.mark.parametrize(
    ("nodes", "verdict", "words"),
    [
        ({"A": "failed"}, "Failed", "A failed"),
        ({"A": "running"}, "Failed", "A began and was lost with its pod"),
        ({"A": "done"}, "Done", "Did not run: B."),
        ({}, "Failed", "No node began"),
    ],
)
def test_message_of_a_run_that_failed_says_where(store_with, webhook, nodes, verdict, words):
    send(store_with(**nodes))

    [(*_, message, _)] = webhook.requests
    assert message["verdict"] == verdict
    assert words in message["sentence"]


def test_address_of_a_webhook_that_fails_is_not_shown(store_with, webhook):
    webhook.answers.append(404)
    with pytest.raises(DataError, match="HTTP 404") as caught:
        send(store_with(A="done"))
    assert "secret-token" not in str(caught.value)


def test_report_of_the_run_is_its_html(store_with, tmp_path, webhook):
    given = json.dumps(executor_input(tmp_path / "kfp", "html"))
    send(store_with(A="done", B="done"), executor_input=given)
    assert "All nodes ran; no model was trained." in (tmp_path / "kfp/html").read_text()


def test_exit_handler_runs_the_task_after_all_others(tmp_path):
    placement = Placement(notify=Notify(webhook_secret="chat", link=LINK))
    node = Importer("/data", Examples).with_id("data")
    made = Compiled(plan_ir(ir_of(node, name="taxi")), tmp_path, placement)

    [handler, _] = made.tasks
    task = made.tasks["notify"]
    assert task["dependentTasks"] == [handler]
    assert task["triggerPolicy"] == {"strategy": "ALL_UPSTREAM_TASKS_COMPLETED"}
    assert task["retryPolicy"]["backoffMaxDuration"] == "2592000s"
    assert made.containers["notify"]["command"] == ["penstock", "notify"]
    key = {"secretKey": "url", "envVar": "PENSTOCK_WEBHOOK"}
    assert made.pods["notify"]["secretAsEnv"] == [{"secretName": "chat", "keyToEnv": [key]}]
    assert read_compiled_file(made.file).tasks == {"data": "data", "notify": "notify"}
