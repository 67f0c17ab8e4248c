"""The checks of tests/conformance against a stand-in of kubectl, and the stand-in of KFP's API.

Penstock's commands, which a cluster runs in a pod, run in this process: `penstock submit`
is the real one.
"""

import importlib.util
import json
import shlex
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from penstock.pipelines.cli.main import app
from tests.pipelines.cli.conftest import file, server  # noqa: F401  # fixtures

FOLDER = Path(__file__).parents[2] / "tests/conformance"


def _load(name, file_name=""):
    spec = importlib.util.spec_from_file_location(name, FOLDER / f"{file_name or name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def conformance():
    """The package's modules, by the names by which they import each other."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("cluster", "checks", "conformance_main"):
            patch.setitem(sys.modules, name, None)
        cluster, checks = _load("cluster"), _load("checks")
        yield cluster, checks, _load("conformance_main", "__main__")


RUN = "0f7c1a52-3d4e-4f6a-8b9c-0d1e2f3a4b5c"
TAXI = ("ShardedExampleGen", "Trainer", "BatchEvaluator", "Pusher")


def executions(*runs):
    """As tests/containers/print_executions.py prints them; the last run is that of the check."""
    return [
        {"node": node, "run": run, "state": state, "inputs": {}, "outputs": {}}
        for run, states in zip(
            [*(f"run-{i}" for i in range(len(runs) - 1)), RUN], runs, strict=True
        )
        for node, state in zip(TAXI, states, strict=True)
    ]


@pytest.fixture
def cluster(conformance, server, file):  # noqa: F811
    module = conformance[0]
    server.create_run = (200, {"run_id": RUN})
    server.answers = {"executions": executions(["COMPLETE"] * 4), "run": "SUCCEEDED", "pods": []}
    answer = server.answer

    def with_runs(method, path, body):
        if path == f"/apis/v2beta1/runs/{RUN}":
            state = server.answers["run"]
            error = {"message": "ShardedExampleGen: exit status 1"} if state == "FAILED" else {}
            return 200, {"run_id": RUN, "state": state, "error": error}
        return answer(method, path, body)

    server.answer = with_runs

    class StandIn(module.Cluster):
        def _run(self, *arguments, stdin):
            return subprocess.CompletedProcess(arguments, *_kubectl(server, file, arguments, stdin))

    return StandIn("", "kubeflow", server.host, "registry.example/penstock:1", "mariadb")


def _kubectl(server, file, arguments, stdin):  # noqa: F811
    """Returns exit code, stdout and stderr of kubectl, of the commands that the checks call."""
    if arguments[0] == "get" and arguments[1] == "pods":
        return 0, json.dumps({"items": server.answers["pods"]}), ""
    if arguments[:2] == ("get", "crd"):
        return 1, "", f'Error from server (NotFound): "{arguments[2]}" not found'
    assert arguments[0] == "exec", arguments
    command = arguments[arguments.index("sh", 8) + 1 :]
    if command[:2] == ("penstock", "compile"):
        return 0, "", ""
    if command[0] == "penstock":
        options = [str(file) if word == "/tmp/compiled.yaml" else word for word in command[1:]]
        options += ["--parameter", "note=x"] if command[1] == "submit" else []
        done = CliRunner().invoke(app, options)
        return done.exit_code, f"{done.output}{done.exception or ''}", ""
    if command[:2] == ("python", "-c") and command[3].startswith(server.host):
        request = urllib.request.Request(command[3], method=command[4])
        with urllib.request.urlopen(request) as response:
            return 0, response.read().decode(), ""
    if command[0] == "python":
        return 0, json.dumps(server.answers["executions"]), ""
    assert command[:2] == ("sh", "-c"), shlex.join(command)
    return 0, "", ""


def test_table_has_a_line_per_check_and_says_which_failed(conformance, capsys):
    cluster, _, main = conformance

    def fails():
        cluster.need(False, "a | b\nand c")

    def lacks():
        raise cluster.NotThereError("no KServe")

    checks = {"works": lambda: "11 nodes", "fails": fails, "lacks": lacks, "odd": lambda: {}["x"]}
    rows, failed = main.run_checks(checks, "Kubernetes v1")

    assert failed
    assert rows == [
        "Kubernetes v1",
        "",
        "| check | result | s | seen |",
        "|---|---|--:|---|",
        "| works | passed | 0 | 11 nodes |",
        r"| fails | **failed** | 0 | AssertionError: a \| b and c |",
        "| lacks | not there | 0 | no KServe |",
        "| odd | **failed** | 0 | KeyError: 'x' |",
    ]
    assert capsys.readouterr().out.splitlines() == rows


def test_submit_passes_if_each_node_ended_and_the_model_was_pushed(conformance, cluster):
    assert conformance[1].taxi_runs(cluster) == f"4 nodes; run {RUN[:8]}"


def test_submit_fails_if_a_node_did_not_end(conformance, cluster, server):  # noqa: F811
    server.answers["executions"] = executions(["COMPLETE", "COMPLETE", "FAILED", "COMPLETE"])
    with pytest.raises(AssertionError, match="FAILED"):
        conformance[1].taxi_runs(cluster)


def test_cached_run_looks_at_its_own_run_alone(conformance, cluster, server):  # noqa: F811
    server.answers["executions"] = executions(["COMPLETE"] * 4, ["CACHED"] * 3 + ["COMPLETE"])
    seen = conformance[1].taxi_again_is_cached(cluster)
    assert seen == "3 of 4 nodes from the cache"

    server.answers["executions"] = executions(
        ["CACHED"] * 4, ["CACHED", "CACHED"] + ["COMPLETE"] * 2
    )
    with pytest.raises(AssertionError, match="'Pusher': 'COMPLETE'"):
        conformance[1].taxi_again_is_cached(cluster)


def test_resolver_wants_the_model_of_the_run_before(conformance, cluster, server):  # noqa: F811
    found = executions(["COMPLETE"] * 4, ["COMPLETE"] * 4)
    found[1]["outputs"], found[5]["outputs"] = {"model": "first"}, {"model": "second"}
    found[6]["inputs"] = {"baseline_model": "first"}
    server.answers["executions"] = found
    assert "the run before" in conformance[1].resolver_finds_the_blessed_model(cluster)

    found[6]["inputs"] = {"baseline_model": "second"}
    with pytest.raises(AssertionError, match="compared with second"):
        conformance[1].resolver_finds_the_blessed_model(cluster)


def test_failing_node_passes_only_if_line_and_column_are_shown(conformance, cluster, server):  # noqa: F811
    def pod(message):
        state = {"terminated": {"message": message}}
        return {"status": {"containerStatuses": [{"state": state}]}}

    server.answers |= {"run": "FAILED", "pods": [pod("trips.csv, line 8 (row 7), column 'fare'")]}
    seen = conformance[1].failing_node_says_why(cluster)
    assert seen == "the line is in the pod's termination message"

    server.answers["pods"] = [pod("exit status 1")]
    with pytest.raises(AssertionError, match="line 8"):
        conformance[1].failing_node_says_why(cluster)


def test_mariadb_is_that_of_the_page(conformance):
    kinds = [one["kind"] for one in yaml.safe_load_all(conformance[0]._mariadb())]
    assert kinds == ["Service", "StatefulSet", "CronJob", "NetworkPolicy", "NetworkPolicy"]


@pytest.mark.parametrize("check", ["jobset_trains", "kserve_gets_the_model"])
def test_what_a_cluster_lacks_is_not_a_failure(conformance, cluster, check):
    with pytest.raises(conformance[0].NotThereError, match=r"^no \w+\."):
        getattr(conformance[1], check)(cluster)
