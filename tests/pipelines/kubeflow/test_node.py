"""Runs every node of a small pipeline with `penstock node`, each in its own process."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

from penstock.pipelines.kubeflow.compile import compile as compile_
from tests.pipelines.kubeflow.placements import IMAGE, executor_input, on

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]
USER_CODE = Path(__file__).parents[1] / "user_code"
NODES = ("import_schema.v1", "last_schema", "make.numbers", "Trainer", "make_numbers")


class Nodes:
    """Runs nodes of `small_pipeline`, with their outputs and metadata in the folder `root`."""

    def __init__(self, penstock, ir, root):
        self.penstock, self.ir, self.root = penstock, ir, root
        self.faults = root / "faults"
        self.store = root / "metadata.sqlite"

    def start(self, node, run, *more):
        return self.start_with(
            *(node, "--ir", self.ir, "--run-id", run, "--metadata", self.store),
            *("--pipeline-root", self.root / "pipeline", *more),
        )

    def start_with(self, *arguments):
        environment = {
            **os.environ,
            "PYTHONPATH": str(USER_CODE),
            "SMALL_PIPELINE_FAULTS": str(self.faults),
        }
        return self.penstock.start("node", *arguments, env=environment)

    def run(self, node, run, *more):
        return self.start(node, run, *more).wait()

    def states(self, node):
        """The last known states of all executions of a node, oldest first."""
        from ml_metadata import metadata_store
        from ml_metadata.proto import metadata_store_pb2

        from penstock.pipelines.runs.metadata_store import SqliteStore

        store = metadata_store.MetadataStore(SqliteStore(str(self.store)).connection_config())
        context = store.get_context_by_type_and_name("node", f"Small_Pipeline.{node}")
        found = store.get_executions_by_context(context.id)
        name = metadata_store_pb2.Execution.State.Name
        return [name(e.last_known_state) for e in sorted(found, key=lambda e: e.id)]

    def outcome(self, run):
        """Outcome of a run as shown by `penstock runs`."""
        from penstock.pipelines.cli.runs import list_runs

        [line] = [line for line in list_runs(str(self.store)) if line.run_id == run]
        return line.outcome, line.sentence

    def outputs(self, node, key):
        folder = self.root / "pipeline" / node / key
        return {p.name: sorted(f.name for f in p.iterdir()) for p in folder.iterdir()}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    root = tmp_path_factory.mktemp("small")
    (root / "schema").mkdir()
    (root / "faults").mkdir()
    return root


@pytest.fixture(scope="module")
def pipeline(folder):
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(USER_CODE))
        patch.setenv("SMALL_PIPELINE_ROOT", str(folder))
        from small_pipeline import create_pipeline

        return create_pipeline()


@pytest.fixture(scope="module")
def ir(folder, pipeline):
    from penstock.pipelines.kubeflow.ir import compile_ir

    file = folder / "ir.pb"
    file.write_bytes(compile_ir(pipeline).SerializeToString())
    return file


@pytest.fixture
def nodes(penstock, ir, folder):
    yield Nodes(penstock, ir, folder)
    for fault in (folder / "faults").iterdir():
        fault.unlink()


def test_runs_a_pipeline_node_by_node(nodes):
    first = [nodes.run(node, "r1") for node in NODES]

    assert [done.returncode for done in first] == [0, 0, 0, 0, 0]
    assert [done.stdout.splitlines()[0] for done in first] == [
        "import_schema.v1: done",
        "last_schema: done",
        "make.numbers: done",
        "Trainer: done",
        "make_numbers: skipped by its condition",  # 3 is not above 5
    ]
    numbers = nodes.root / "pipeline/make.numbers/numbers/3/numbers.txt"
    assert numbers.read_text().split() == ["0.0", "0.0", "0.0"]

    more = ("--parameter", "how-many=7.0", "--parameter", "scale=0.5")
    second = [nodes.run(node, "r2", *more) for node in NODES]

    assert [done.stdout.splitlines()[0] for done in second] == [
        "import_schema.v1: served from the cache",
        "last_schema: done",
        "make.numbers: done",
        "Trainer: done",
        "make_numbers: done",
    ]
    (pushed,) = (nodes.root / "pipeline/make_numbers/pushed").glob("*/saved_model")
    assert pushed.read_text().split() == ["0.0", "0.5", "1.0", "1.5", "2.0", "2.5", "3.0"]

    shown = nodes.root / "kfp" / "pushed"
    wanted = _wanted(nodes.root / "kfp", "pushed", "model", "numbers", "total", "result")
    more += ("--kfp-executor-input", wanted)
    third = [nodes.run(node, "r3", *more) for node in NODES]

    assert [done.stdout.splitlines()[0] for done in third] == [
        "import_schema.v1: served from the cache",
        "last_schema: done",
        "make.numbers: served from the cache",
        "Trainer: served from the cache",
        "make_numbers: served from the cache",
    ]
    assert shown.read_text() == str(pushed.parent)
    _assert_cached_without_tensorflow(nodes, *more[:4])


def _assert_cached_without_tensorflow(nodes, *more):
    """Runs a cached node in a new interpreter; it must not spend seconds importing TensorFlow."""
    for node in NODES[:2]:
        assert nodes.run(node, "r4").returncode == 0
    code = "from penstock.pipelines.cli.main import main; main()"
    store = ("--metadata", nodes.store, "--pipeline-root", nodes.root / "pipeline")
    done = subprocess.run(
        [
            *(sys.executable, "-X", "importtime", "-c", code, "node", "make.numbers"),
            *("--ir", nodes.ir, "--run-id", "r4", *store, *more),
        ],
        env={**os.environ, "PYTHONPATH": f"{ROOT}:{USER_CODE}"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.startswith("make.numbers: served from the cache")
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert "tfx.orchestration.portable.launcher" in imported
    # Each library is recognised by one of its submodules, because `-X importtime` also lists
    # imports that failed.
    heavy = {"tensorflow.python", "apache_beam.io", "tfx.components.base", "small_pipeline"}
    assert imported.isdisjoint(heavy)


def test_failed_node_reports_one_line_and_retry_starts_from_scratch(nodes):
    for node in NODES[:3]:
        assert nodes.run(node, "failing", "--parameter", "how-many=20").returncode == 0
    (nodes.faults / "fail").touch()

    failed = nodes.run("Trainer", "failing", "--parameter", "how-many=20")

    assert failed.returncode == 1
    assert failed.stderr.splitlines()[-1] == (
        "penstock: node 'Trainer' failed: ValueError: the weights are NaN at step 7"
    )
    assert "small_pipeline.py" in failed.stdout  # the traceback is in the log
    assert nodes.states("Trainer")[-1] == "FAILED"
    assert nodes.outcome("failing") == (
        "Failed",
        "Trainer: ValueError: the weights are NaN at step 7",
    )

    (nodes.faults / "fail").unlink()
    assert nodes.run("Trainer", "failing", "--parameter", "how-many=20").returncode == 0
    assert nodes.states("Trainer")[-2:] == ["FAILED", "COMPLETE"]
    assert nodes.outcome("failing")[0] == "Not complete"

    again = nodes.run("Trainer", "failing", "--parameter", "how-many=20")
    assert again.stdout.splitlines()[0] == "Trainer: done by an earlier try of this run"
    assert nodes.states("Trainer")[-2:] == ["FAILED", "COMPLETE"]


def test_retry_of_a_task_with_several_nodes_goes_on_at_the_one_that_failed(nodes):
    assert nodes.run("import_schema.v1", "several", "last_schema").returncode == 0
    (nodes.faults / "fail").touch()
    task = ("make.numbers", "several", "Trainer", "--parameter", "how-many=21")

    failed = nodes.run(*task)
    assert failed.returncode == 1
    assert "node 'Trainer' failed" in failed.stderr.splitlines()[-1]

    (nodes.faults / "fail").unlink()
    wanted = _wanted(
        nodes.root / "kfp/several", "make_numbers_numbers", "make_numbers_total", "trainer_model"
    )
    again = nodes.run(*task, "--kfp-executor-input", wanted)
    states = [line for line in again.stdout.splitlines() if line.startswith(("make", "Trainer"))]
    assert states == ["make.numbers: done by an earlier try of this run", "Trainer: done"]
    kept = json.loads((nodes.root / "kfp/several/executor_output.json").read_text())["artifacts"]
    [model] = kept["trainer_model"]["artifacts"]
    assert Path(model["metadata"]["uri"], "saved_model").exists()
    assert set(kept) == {"make_numbers_numbers", "make_numbers_total", "trainer_model"}


def test_runs_a_compiled_file_as_kubeflow_would(nodes, monkeypatch):
    """Runs each task after those it depends on; fills in the placeholders as KFP does."""
    file = nodes.root / "small.yaml"
    monkeypatch.syspath_prepend(str(USER_CODE))
    monkeypatch.setenv("SMALL_PIPELINE_ROOT", str(nodes.root))
    compile_("small_pipeline:create_pipeline", file, image=IMAGE, placement=on(nodes.root))
    spec = next(yaml.safe_load_all(file.read_text()))
    values = {"run_id": "kfp", "how_many": "8", "scale": "1.5", "note": "a=b"}
    done = []
    waiting = dict(spec["root"]["dag"]["tasks"])
    while waiting:
        name = next(
            n for n in waiting if not set(waiting[n].get("dependentTasks", [])) & {*waiting}
        )
        container = spec["deploymentSpec"]["executors"][f"exec-{name}"]["container"]
        outputs = spec["components"][f"comp-{name}"].get("outputDefinitions", {})
        wanted = _wanted(nodes.root / "kfp" / name, *outputs.get("artifacts", {}))
        arguments = [text.replace("{{$}}", wanted) for text in container["args"]]
        for key, value in values.items():
            placeholder = f"{{{{$.inputs.parameters['{key}']}}}}"
            arguments = [text.replace(placeholder, value) for text in arguments]
        done.append(nodes.start_with(*arguments).wait())
        waiting.pop(name)

    assert [one.returncode for one in done] == [0] * len(done)
    # States are not compared: a node comes from the cache if another test has run it. Light nodes
    # share a task.
    said = [line.split(":") for one in done for line in one.stdout.splitlines()]
    assert tuple(name for name, *_ in said if name in NODES) == NODES
    (pushed,) = (nodes.root / "runs/small-pipeline/make_numbers/pushed").glob("*/saved_model")
    assert pushed.read_text().split() == [str(i * 1.5) for i in range(8)]
    kept = json.loads((nodes.root / "kfp/make-numbers-2/executor_output.json").read_text())
    [shown] = kept["artifacts"]["pushed"]["artifacts"]
    assert shown["metadata"]["uri"] == str(pushed.parent)


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_retry_of_a_killed_node_sees_no_old_output(nodes, how):
    run, more = f"killed-{how.name}", ("--parameter", f"how-many={30 + how}")
    for node in NODES[:3]:
        assert nodes.run(node, run, *more).returncode == 0
    (nodes.faults / "hang").touch()
    started = nodes.start("Trainer", run, *more)
    _wait_for(nodes.faults / "hanging")
    before = nodes.outputs("Trainer", "model")
    assert ["part"] in before.values()

    os.kill(started.pid, how)
    killed = started.wait()

    if how is signal.SIGTERM:
        assert killed.returncode == 1
        assert killed.stderr.splitlines()[-1] == (
            "penstock: node 'Trainer' was stopped by SIGTERM; run it again"
        )
        assert nodes.states("Trainer")[-1] == "FAILED"
    else:
        assert killed.returncode == -signal.SIGKILL
        assert nodes.states("Trainer")[-1] == "RUNNING"

    (nodes.faults / "hang").unlink()
    assert nodes.run("Trainer", run, *more).returncode == 0
    assert nodes.states("Trainer")[-2:] == ["FAILED", "COMPLETE"]
    after = nodes.outputs("Trainer", "model")
    assert ["part"] not in after.values()
    assert len(after) == len(before)  # one was added and one was removed


def test_missing_input_fails_the_node(nodes):
    failed = nodes.run("Trainer", "without-inputs")

    assert failed.returncode == 1
    assert "node 'Trainer' failed" in failed.stderr.splitlines()[-1]
    assert "inputs[numbers] has min_count = 1" in failed.stderr.splitlines()[-1]


def _wanted(folder, *artifacts):
    return json.dumps(executor_input(folder, *artifacts))


def _wait_for(file):
    deadline = time.monotonic() + 300
    while not file.exists():
        assert time.monotonic() < deadline, f"{file} never came"
        time.sleep(0.05)
