"""The checks of tests/conformance, with stand-ins for kubectl and for KFP's API.

In a cluster, Penstock's commands run in a pod. Here they run in this process, except that `penstock
compile` does nothing.
"""

import importlib.util
import json
import shlex
import subprocess
import sys
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
    """The modules of tests/conformance, under the names by which they import each other."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("cluster", "checks", "conformance_main"):
            patch.setitem(sys.modules, name, None)
        cluster, checks = _load("cluster"), _load("checks")
        yield cluster, checks, _load("conformance_main", "__main__")


RUN = "0f7c1a52-3d4e-4f6a-8b9c-0d1e2f3a4b5c"
TAXI = ("ShardedExampleGen", "Trainer", "BatchEvaluator", "Pusher")


@pytest.fixture
def cluster(conformance, server, file):  # noqa: F811
    module = conformance[0]
    server.create_run = (200, {"run_id": RUN})
    server.states = dict.fromkeys(TAXI, "COMPLETE")
    answer = server.answer

    def with_runs(method, path, body):
        if path == f"/apis/v2beta1/runs/{RUN}":
            return 200, {"run_id": RUN, "state": "SUCCEEDED"}
        return answer(method, path, body)

    server.answer = with_runs

    class StandIn(module.Cluster):
        def _run(self, *arguments, stdin):
            return subprocess.CompletedProcess(arguments, *_kubectl(server, file, arguments, stdin))

    return StandIn("", "kubeflow", server.host, "registry.example/penstock:1", "mariadb")


def _kubectl(server, file, arguments, stdin):  # noqa: F811
    """Returns exit code, stdout and stderr of kubectl, for the commands that the checks call."""
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
    if command[0] == "python":
        ended = [{"node": n, "run": RUN, "state": s} for n, s in server.states.items()]
        return 0, json.dumps(ended), ""
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


def test_submit_passes_only_if_each_node_ended_and_the_model_was_pushed(
    conformance,
    cluster,
    server,  # noqa: F811
):
    assert conformance[1].taxi_runs(cluster) == f"4 nodes; run {RUN[:8]}"
    server.states["Trainer"] = "FAILED"
    with pytest.raises(AssertionError, match="FAILED"):
        conformance[1].taxi_runs(cluster)


def test_mariadb_is_that_of_the_page(conformance):
    kinds = [one["kind"] for one in yaml.safe_load_all(conformance[0]._mariadb())]
    assert kinds == ["Service", "StatefulSet", "CronJob", "NetworkPolicy", "NetworkPolicy"]


@pytest.mark.parametrize("check", ["jobset_trains", "kserve_gets_the_model"])
def test_what_a_cluster_lacks_is_not_a_failure(conformance, cluster, check):
    with pytest.raises(conformance[0].NotThereError, match=r"^no \w+\."):
        getattr(conformance[1], check)(cluster)
