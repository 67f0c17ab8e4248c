"""`submit` with a stand-in for KFP's server on loopback, because tests cannot run a cluster."""

from types import SimpleNamespace

import pytest

from penstock.components.errors import DataError, UsageError
from penstock.pipelines.kubeflow.compiled_file import read_compiled_file
from penstock.pipelines.kubeflow.submit import submit, submit_spans


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    monkeypatch.setattr("penstock.pipelines.kubeflow.submit._SECONDS_BETWEEN_POLLS", 0.01)


def _submit(file, host, start=submit, **more):
    options = {
        "experiment": "taxi",
        "name": "first",
        "parameters": ["note=hello"],
        "namespace": None,
        "service_account": None,
        "wait": False,
    }
    return start(file, host=host, **{**options, **more})


def _started(server):
    """The contents of the requests that start a run."""
    return [body for _, path, _, body, _ in server.requests if body and path.endswith("/runs")]


def _tokens(server):
    return [headers["Authorization"] for *_, headers in server.requests]


def test_starts_a_run_of_the_file_with_typed_parameters(server, file):
    account = "penstock-runner"
    parameters = ["how_many=7", "rate=2", "note=12"]
    run_id = _submit(file, server.host, parameters=parameters, name=None, service_account=account)

    assert run_id == "run-1"
    (body,) = _started(server)
    assert (body["experiment_id"], body["service_account"]) == ("new", account)
    assert body["display_name"].startswith("small 20")
    assert body["runtime_config"]["parameters"] == {"how_many": 7, "rate": 2, "note": "12"}
    spec = body["pipeline_spec"]
    assert spec["pipeline_spec"]["root"]["dag"]["tasks"].keys() == {"make-numbers", "trainer"}
    executors = spec["platform_spec"]["platforms"]["kubernetes"]["deploymentSpec"]["executors"]
    assert executors == {"exec-trainer": {"nodeSelector": {"labels": {"pool": "gpu"}}}}


def test_experiment_is_created_only_if_missing(server, file):
    _submit(file, server.host)
    created = [body for method, path, _, body, _ in server.requests if "experiments" in path]
    assert created[-1]["display_name"] == "taxi"

    server.requests.clear()
    server.experiments = [{"experiment_id": "old", "display_name": "taxi"}]
    _submit(file, server.host)
    assert [path for method, path, *_ in server.requests if method == "POST"] == [
        "/apis/v2beta1/runs"
    ]
    (body,) = _started(server)
    assert (body["experiment_id"], body["display_name"]) == ("old", "first")
    assert "service_account" not in body


@pytest.mark.parametrize("variable", ["PENSTOCK_KFP_TOKEN_FILE", "KF_PIPELINES_SA_TOKEN_PATH"])
def test_token_in_a_file_is_read_again_while_waiting(server, file, monkeypatch, tmp_path, variable):
    token = tmp_path / "token"
    token.write_text("first\n")
    monkeypatch.setenv(variable, str(token))
    server.runs = [_run("RUNNING"), _run("SUCCEEDED")]

    def renew(seconds):
        token.write_text("second\n")

    clock = SimpleNamespace(sleep=renew, monotonic=lambda: 0.0)
    monkeypatch.setattr("penstock.pipelines.kubeflow.submit.time", clock)
    _submit(file, server.host, wait=True)

    sent = _tokens(server)
    assert set(sent[:-1]) == {"Bearer first"}
    assert sent[-1] == "Bearer second"


def test_unreadable_token_file_is_an_error(server, file, monkeypatch):
    monkeypatch.setenv("PENSTOCK_KFP_TOKEN_FILE", "/no/such")
    with pytest.raises(DataError, match=r"^/no/such: cannot read the token \(No such file"):
        _submit(file, server.host)


def test_server_of_several_users_needs_a_namespace(server, file):
    server.health = (200, {"multi_user": True})
    with pytest.raises(UsageError, match="has several users; name yours with --namespace"):
        _submit(file, server.host)

    _submit(file, server.host, namespace="ann")
    asked = [query for method, path, query, *_ in server.requests if "filter" in query]
    assert asked[0]["namespace"] == "ann"


def _run(state, error=None, **tasks):
    details = [{"display_name": "trainer-driver", "state": "SUCCEEDED"}]
    for name, task_state in tasks.items():
        detail = {"display_name": name.replace("_", "-"), "state": task_state}
        if task_state == "FAILED":
            detail["error"] = {"message": "exit code 1"}
        details.append(detail)
    run = {"run_id": "run-1", "state": state, "run_details": {"task_details": details}}
    return 200, {**run, **({"error": {"message": error}} if error else {})}


def test_wait_prints_the_state_of_each_node(server, file, capsys):
    server.runs = [
        (200, {"run_id": "run-1", "state": "PENDING"}),
        _run("RUNNING", make_numbers="RUNNING"),
        (503, {"message": "restarting"}),
        _run("RUNNING", make_numbers="RUNNING"),
        _run("RUNNING", make_numbers="SUCCEEDED", trainer="RUNNING"),
        _run("SUCCEEDED", make_numbers="SUCCEEDED", trainer="SUCCEEDED"),
    ]
    _submit(file, server.host, wait=True)

    out, err = capsys.readouterr()
    first, *progress, last = err.splitlines()
    assert first == f"run run-1: {server.host}/#/runs/details/run-1"
    assert [line.split(" ", 1)[1] for line in progress] == [
        "make.numbers: running",
        "make.numbers: succeeded",
        "Trainer: running",
        "Trainer: succeeded",
    ]
    assert last == "run run-1 succeeded"
    assert out == ""


@pytest.mark.parametrize(
    ("run", "message"),
    [
        (
            _run("FAILED", make_numbers="SUCCEEDED", trainer="FAILED"),
            "run run-1 failed: Trainer (exit code 1); the log of its pod says why",
        ),
        (_run("FAILED", error="quota\nexceeded"), "run run-1 failed: quota exceeded"),
        (_run("CANCELED"), "run run-1 canceled"),
    ],
)
def test_run_that_does_not_succeed_is_an_error(server, file, run, message):
    server.runs = [run]
    with pytest.raises(DataError) as error:
        _submit(file, server.host, wait=True)
    assert str(error.value) == message


def test_spans_run_in_order_stop_at_a_failure_and_go_on(server, file, capsys):
    file.write_text(file.read_text().replace("how_many", "span"))

    def backfill(spans, **more):
        _submit(file, server.host, start=submit_spans, spans=spans, **more)

    def started():
        made = _started(server)
        names = [body["display_name"] for body in made]
        spans = [body["runtime_config"]["parameters"]["span"] for body in made]
        server.requests.clear()
        return names, spans

    server.runs = [_run("SUCCEEDED"), _run("FAILED", trainer="FAILED")]
    with pytest.raises(
        DataError, match=r"^span 4: run run-1 failed: Trainer.*\n.*continues with span 4$"
    ):
        backfill(range(3, 6))
    names, spans = started()
    assert spans == [3, 4]
    assert names[0].startswith("first span 3 ")

    server.finished = [{"run_id": "run-0", "display_name": names[0], "state": "SUCCEEDED"}]
    server.runs = [_run("SUCCEEDED")]
    capsys.readouterr()
    backfill(range(3, 6))
    assert capsys.readouterr().err.startswith("span 3: skipped, finished by run run-0\nspan 4\n")
    assert started()[1] == [4, 5]
    backfill(range(3, 5), parameters=["note=other"])
    assert started()[1] == [3, 4]
    backfill(range(3, 4))
    assert started()[1] == [3]


@pytest.fixture
def cluster(server, kubeconfig, monkeypatch):
    """The nodes of Argo's workflow; `server` serves them as the API of a kubeconfig's cluster."""
    nodes, answer = {}, server.answer

    def with_workflows(method, path, body):
        if path == "/apis/argoproj.io/v1alpha1/namespaces/kubeflow/workflows":
            return 200, {"items": [{"status": {"nodes": nodes}}]}
        return answer(method, path, body)

    server.answer = with_workflows
    kubeconfig(server.host)
    monkeypatch.setattr("penstock.pipelines.kubeflow.submit._PATIENCE_SECONDS", 0.0)
    return nodes


def _pod(name, phase, message):
    return {"name": f"small-x7.root.{name}", "type": "Pod", "phase": phase, "message": message}


def test_wait_says_what_pods_wait_for(server, file, cluster, capsys):
    """A message is a pod's reason to wait (Argo's `getPendingReason`) or the API's refusal."""
    image = "ErrImagePull: manifest unknown"
    # In a cluster, the pods of a task that may be retried have names of this form.
    cluster["1"] = _pod("root(0).trainer(0).executor(0)", "Pending", image)
    cluster["2"] = _pod("make-numbers-driver", "Pending", "PodInitializing")
    cluster["3"] = {**_pod("trainer", "Pending", "a DAG has no pod"), "type": "DAG"}
    server.runs = [_run("RUNNING", trainer="RUNNING")] * 4 + [_run("SUCCEEDED")]
    _submit(file, server.host, wait=True)

    lines = [line.split(" ", 1)[1] for line in capsys.readouterr().err.splitlines()]
    assert lines.count("Trainer waits: ErrImagePull: manifest unknown") == 1
    assert not any("PodInitializing" in line or "DAG" in line for line in lines)


def test_failed_run_says_the_last_words_of_the_pod(server, file, cluster):
    said = "main: Error (exit code 1): trips.csv, line 8:\nno number"
    cluster["1"] = _pod("trainer.executor(0)", "Failed", said)
    server.runs = [_run("FAILED", trainer="FAILED")]
    with pytest.raises(DataError, match=r"Trainer \(main: Error .*trips.csv, line 8: no number\);"):
        _submit(file, server.host, wait=True)


def test_wait_goes_on_where_the_cluster_cannot_be_seen(server, file, cluster):
    server.runs = [_run("RUNNING", trainer="RUNNING")] * 3 + [_run("SUCCEEDED")]
    answer = server.answer
    server.answer = lambda method, path, body: (
        (403, {"message": "no"}) if "argoproj" in path else answer(method, path, body)
    )
    _submit(file, server.host, wait=True)


@pytest.mark.parametrize(
    ("health", "message"),
    [
        ((401, {}), "refuses the login (401): set PENSTOCK_KFP_TOKEN or PENSTOCK_KFP_TOKEN_FILE"),
        ((403, {}), "refuses the login (403): set PENSTOCK_KFP_TOKEN or PENSTOCK_KFP_TOKEN_FILE"),
        ((404, {}), "answers 404 Not Found: not Kubeflow Pipelines, or older than version 2.0"),
        (
            (200, "<html>log in</html>"),
            "answers with something other than JSON, perhaps a login page",
        ),
        ((500, {}), "answers 500 Internal Server Error"),
    ],
)
def test_unhealthy_server_is_diagnosed(server, file, health, message):
    server.health = health
    with pytest.raises(DataError) as error:
        _submit(file, server.host)
    assert message in str(error.value)
    assert len(server.requests) == 1


def test_rejected_run_reports_the_servers_message(server, file, monkeypatch):
    server.create_run = (400, {"error": "x", "message": "Invalid input: no such\nparameter"})
    with pytest.raises(DataError) as error:
        _submit(file, server.host)
    assert str(error.value) == f"{server.host} answers 400: Invalid input: no such parameter"

    server.requests.clear()
    monkeypatch.setenv("PENSTOCK_KFP_TOKEN", "a-token")
    server.create_run = (403, {"message": "no"})
    with pytest.raises(DataError, match=r"refuses the login \(403\): set PENSTOCK"):
        _submit(file, server.host)
    assert set(_tokens(server)) == {"Bearer a-token"}


def test_missing_server_is_reported(server, file):
    closed = type(server)()
    closed.close()
    with pytest.raises(DataError, match=r"^no Kubeflow Pipelines server at .*refused"):
        _submit(file, closed.host)
    with pytest.raises(UsageError, match=r"--host must start with http:// or https://"):
        _submit(file, "localhost:8080")


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        (["note=a", "x=1"], "no parameter 'x'; choices: how_many, rate, note"),
        (["note=a", "how_many=2.5"], "'how_many': expected a whole number, got '2.5'"),
        (["note=a", "how_many=true"], "'how_many': expected a whole number, got 'true'"),
        (["note=a", "rate=fast"], "'rate': expected a number, got 'fast'"),
        ([], "parameter 'note' has no default; give --parameter note=..."),
        (["note"], "--parameter takes NAME=VALUE, got 'note'"),
    ],
)
def test_refuses_parameters_that_do_not_fit_before_any_request(server, file, parameters, message):
    with pytest.raises(UsageError) as error:
        _submit(file, server.host, parameters=parameters)
    assert message in str(error.value)
    assert server.requests == []


@pytest.mark.parametrize("text", ["", "a: [", "a: 1", "- 1", "root: {}"])
def test_file_that_is_no_compiled_pipeline_is_refused(tmp_path, text):
    file = tmp_path / "x.yaml"
    file.write_text(text)
    with pytest.raises(DataError, match=r"x\.yaml: not a compiled Kubeflow pipeline; make one"):
        read_compiled_file(file)
