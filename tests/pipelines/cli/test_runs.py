"""`penstock runs show` and `prune`, for hand-made runs and for a real pipeline.

`penstock runs list` is tested in test_report.py.
"""

import json
import os
from pathlib import Path

import pytest
from typer.testing import CliRunner

from penstock.components.errors import DataError
from penstock.pipelines.cli.main import app
from penstock.pipelines.runs.metadata_store import only_run
from penstock.pipelines.runs.run_record import all_runs

USER_CODE = Path(__file__).parents[1] / "user_code"


def call(*arguments):
    done = CliRunner().invoke(app, [str(a) for a in arguments], catch_exceptions=False)
    assert done.exit_code == 0
    return done.stdout


class Pipeline:
    """Hand-made runs with nodes for data, training and evaluation; their files are below `root`."""

    def __init__(self, runs, root):
        self.runs, self.root, self.number = runs, root, 0

    def _give(self, node, kind, **properties):
        self.number += 1
        folder = self.root / node / kind.lower() / str(self.number)
        folder.mkdir(parents=True)
        (folder / "data").write_text("x" * 1000)
        return self.runs.artifact(kind, folder, **properties)

    def ingest(self, run):
        return self.runs.node(run, "Gen", outputs=[self._give("Gen", "Examples")])

    def train(self, run, examples, blessed):
        model = self.runs.node(
            run, "Trainer", inputs=examples, outputs=[self._give("Trainer", "Model")]
        )
        blessing = self._give("Evaluator", "ModelBlessing", blessed=int(blessed))
        self.runs.node(run, "Evaluator", inputs=[*examples, *model], outputs=[blessing])
        return model

    def left(self):
        """The artifact folders that still exist, as `node/number`."""
        return {f"{p.parts[-3]}/{p.parts[-1]}" for p in self.root.glob("[!.]*/[!.]*/*")}


@pytest.fixture
def made(runs, tmp_path):
    return Pipeline(runs, tmp_path / "root")


def test_what_nothing_kept_rests_on_goes(made, tmp_path):
    old = made.ingest("run-1")  # Gen/1
    made.train("run-1", old, blessed=False)  # Trainer/2, Evaluator/3
    made.train("run-2", old, blessed=True)  # Trainer/4, Evaluator/5
    new = made.ingest("run-3")  # Gen/6
    made.train("run-3", new, blessed=False)  # Trainer/7, Evaluator/8
    made.train("run-4", new, blessed=False)  # Trainer/9, Evaluator/10
    everything = made.left()

    told = call("runs", "prune", tmp_path, "--keep", 1)
    store, *folders, advice = told.splitlines()
    assert store == (
        f"{tmp_path}/metadata.sqlite: would go: 4 folders of 2 runs, 3.9 KiB; kept: 2 runs, "
        "and what they and the blessed model rest on"
    )
    assert [str(Path(line.strip()).relative_to(made.root)) for line in folders] == [
        *("Trainer/model/7", "Evaluator/modelblessing/8"),
        *("Trainer/model/2", "Evaluator/modelblessing/3"),
    ]
    assert advice == "give --yes to remove them"
    assert made.left() == everything

    # `prune` refuses to work during another run, because that run may reuse a cached artifact that
    # would be deleted.
    at_work = f"another run is at work .process {os.getpid()}.; wait"
    with only_run(tmp_path), pytest.raises(DataError, match=at_work):
        call("runs", "prune", tmp_path, "--keep", 1, "--yes")
    assert made.left() == everything

    assert "removed: 4 folders of 2 runs" in call("runs", "prune", tmp_path, "--keep", 1, "--yes")
    # These remain: the kept run and its data; the model blessed in run-2, and its data from run-1.
    assert made.left() == {
        *("Trainer/9", "Evaluator/10", "Gen/6"),
        *("Trainer/4", "Evaluator/5", "Gen/1"),
    }
    states = {
        artifact.uri.rsplit("/", 1)[1]: artifact.state
        for run in all_runs(made.runs.store)
        for node in run.nodes
        for artifact in node.outputs
    }
    deleted = 4  # ml_metadata.proto.Artifact.DELETED
    assert {number for number, state in states.items() if state == deleted} == {"2", "3", "7", "8"}
    assert "nothing to remove" in call("runs", "prune", tmp_path, "--keep", 1, "--yes")
    sizes = {
        run["run_id"]: run["size"] for run in json.loads(call("runs", "list", tmp_path, "--json"))
    }
    assert sizes == {"run-4": 2000, "run-3": 1000, "run-2": 2000, "run-1": 1000}


def test_statistics_that_drift_is_measured_from_stay(made, tmp_path):
    for run, blessed in (("run-1", True), ("run-2", True), ("run-3", False), ("run-4", False)):
        examples = made.ingest(run)
        found = made._give("StatisticsGen", "ExampleStatistics")
        made.runs.node(run, "StatisticsGen", inputs=examples, outputs=[found])
        made.train(run, examples, blessed=blessed)
    call("runs", "prune", tmp_path, "--keep", 1, "--yes")
    # The statistics of run-2 (its model was blessed last) and of run-4 (the kept run) remain.
    left = {place for place in made.left() if place.startswith("StatisticsGen/")}
    assert left == {"StatisticsGen/6", "StatisticsGen/14"}


def test_a_run_under_way_is_kept_unless_none_is(made, runs, tmp_path):
    old = made.ingest("run-1")
    runs.node("run-1", "Trainer", "running", old)
    [execution] = [
        n.execution_id for r in all_runs(runs.store) for n in r.nodes if n.node == "Trainer"
    ]
    part = tmp_path / f"root/Trainer/model/{execution}"
    system = tmp_path / f"root/Trainer/.system/executor_execution/{execution}"
    for folder in (part, system):
        folder.mkdir(parents=True)
    made.ingest("run-2")

    assert "nothing to remove; kept: 2 runs" in call("runs", "prune", tmp_path, "--keep", 1)
    told = call("runs", "prune", tmp_path, "--keep", 1, "--interrupted", "--yes")
    assert "3 folders of 1 run" in told
    assert "2 left by interrupted tries" in told
    assert not part.exists()
    assert not system.exists()
    assert made.left() == {"Gen/2"}


def test_what_a_user_imported_stays(runs, made, tmp_path):
    (tmp_path / "schema").mkdir()
    runs.node("run-1", "import", outputs=[runs.artifact("Schema", tmp_path / "schema")])
    made.ingest("run-2")

    assert "nothing to remove" in call("runs", "prune", tmp_path, "--keep", 1, "--yes")
    assert (tmp_path / "schema").exists()


def test_show_lists_nodes_and_artifacts(made, tmp_path):
    made.train("run-1", made.ingest("run-1"), blessed=True)

    text = call("runs", "show", tmp_path)
    assert text.startswith("hand, run run-1 of 20")
    rows = [line.split() for line in text.splitlines()]
    (trainer,) = [row for row in rows if row[:1] == ["Trainer"]]
    assert {"done", "Model", "live"} <= set(trainer)


@pytest.mark.slow
def test_tfx_makes_again_what_was_pruned(tmp_path, penstock):
    """In a real pipeline, the cache does not return removed artifacts."""
    (tmp_path / "schema").mkdir()
    code = (
        "import sys\n"
        "from tfx.orchestration.local.local_dag_runner import LocalDagRunner\n"
        "from tfx.orchestration.metadata import sqlite_metadata_connection_config\n"
        "from tfx.orchestration.data_types import RuntimeParameter\n"
        "import small_pipeline\n"
        "def run(scale):\n"
        "    small_pipeline.RuntimeParameter = lambda name, kind, value: (\n"
        "        {'scale': scale, 'how-many': 3, 'note': ''}[name])\n"
        "    pipeline = small_pipeline.create_pipeline()\n"
        "    pipeline.metadata_connection_config = sqlite_metadata_connection_config(\n"
        "        sys.argv[1] + '/metadata.sqlite')\n"
        "    LocalDagRunner().run(pipeline)\n"
        "for scale in sys.argv[2:]:\n"
        "    run(float(scale))\n"
    )

    def run(*scales):
        env = {
            **os.environ,
            "SMALL_PIPELINE_ROOT": str(tmp_path),
            "PYTHONPATH": str(USER_CODE),
        }
        done = penstock.run_code(code, tmp_path, *scales, env=env)
        assert done.returncode == 0, done.stderr
        newest = json.loads(call("runs", "list", tmp_path, "--json"))[0]
        return newest["cached"]

    assert run("1.0", "2.0", "1.0") > 0
    numbers = list((tmp_path / "pipeline/make.numbers/numbers").iterdir())
    assert len(numbers) == 2
    assert "removed: 2 folders of 1 run" in call("runs", "prune", tmp_path, "--keep", 1, "--yes")
    assert len(list((tmp_path / "pipeline/make.numbers/numbers").iterdir())) == 1
    cached = run("2.0")
    assert len(list((tmp_path / "pipeline/make.numbers/numbers").iterdir())) == 2
    assert cached < 4
