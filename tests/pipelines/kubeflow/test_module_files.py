"""`module_file=`, which nearly every public TFX pipeline uses: compiled, and run without pip."""

import subprocess
import sys

import pytest

import penstock
from penstock.pipelines.kubeflow.node import launch_node
from penstock.pipelines.kubeflow.recipe import Recipe
from penstock.pipelines.runs.launch import State
from penstock.pipelines.runs.metadata_store import SqliteStore
from tests.pipelines.kubeflow.placements import IMAGE, on

PIPELINE = """\
from pathlib import Path

from tfx.components.trainer.component import Trainer
from tfx.dsl.components.common.importer import Importer
from tfx.orchestration.pipeline import Pipeline
from tfx.proto import trainer_pb2
from tfx.types.standard_artifacts import Examples

HERE = Path(__file__).parent


def create_pipeline():
    splits = {"split_names": '["train", "eval"]'}
    examples = Importer("/tmp", Examples, properties=splits).with_id("examples")
    trainer = Trainer(
        module_file=str(HERE / "modules/loans_trainer.py"),
        examples=examples.outputs["result"],
        train_args=trainer_pb2.TrainArgs(),
        eval_args=trainer_pb2.EvalArgs(),
    )
    return Pipeline("loans", ROOT, components=[examples, trainer], enable_cache=True)
"""
TRAINER = """\
import os

from loans_constants import WORD  # a module beside this one


def run_fn(fn_args):
    os.makedirs(fn_args.serving_model_dir)
    with open(f"{fn_args.serving_model_dir}/saved_model.pb", "w") as file:
        file.write(WORD)
"""


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A folder of scripts that is not a package, as in public pipelines."""
    folder = tmp_path / "project"
    (folder / "modules").mkdir(parents=True)
    (folder / "loans_pipeline.py").write_text(PIPELINE.replace("ROOT", repr(f"{tmp_path}/v/runs")))
    (folder / "modules/loans_trainer.py").write_text(TRAINER)
    (folder / "modules/loans_constants.py").write_text("WORD = 'first'\n")
    monkeypatch.chdir(folder)
    monkeypatch.setattr("sys.path", [str(folder), *sys.path])
    monkeypatch.setenv("PYTHONPATH", "")
    yield folder
    for name in ("loans_pipeline", "loans_constants"):
        sys.modules.pop(name, None)


@pytest.mark.slow
def test_module_file_outside_of_a_package_compiles_and_trains_without_pip(
    project, tmp_path, monkeypatch
):
    def no_pip(command, **_):
        raise AssertionError(f"a process is started: {command}")

    monkeypatch.setattr(subprocess, "check_call", no_pip)
    plan = penstock.compile(
        "loans_pipeline:create_pipeline",
        tmp_path / "loans.yaml",
        image=IMAGE,
        placement=on(tmp_path / "v"),
    )
    assert plan.packages == ("loans_pipeline",)
    assert str(project) not in (tmp_path / "loans.yaml").read_text()
    ir, _ = Recipe.from_text(plan.recipe).build([])
    store = SqliteStore(str(tmp_path / "metadata.sqlite"))

    def run(run_id):
        launch_node(ir, "examples", run_id=run_id, store=store)
        return launch_node(ir, "Trainer", run_id=run_id, store=store)

    first = run("r1")
    [model] = first.outputs["model"]
    [written] = (tmp_path / "v/runs").glob("Trainer/model/*/Format-Serving/saved_model.pb")
    assert model.uri in str(written)
    assert written.read_text() == "first"
    assert run("r2").state == State.CACHED
    module = project / "modules/loans_trainer.py"
    module.write_text(TRAINER.replace("(WORD)", "('second')"))
    assert run("r3").state == State.DONE
