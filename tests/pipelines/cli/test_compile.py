"""`penstock compile` on a machine other than the one on which the pipeline runs."""

import sys
import sysconfig
from pathlib import Path

import pytest

import penstock
from penstock.components.errors import UsageError
from penstock.pipelines.kubeflow.placement import Placement
from penstock.pipelines.kubeflow.recipe import Recipe
from penstock.pipelines.kubeflow.refusals import check_changes, node_texts
from penstock.pipelines.runs.metadata_store import MySqlStore
from penstock.schemas import schema_file
from tests.pipelines.cli.conftest import call
from tests.pipelines.kubeflow.placements import IMAGE, on

ROOT = Path(__file__).parents[3]


def plan_of(out, changes, placement=None):
    return penstock.compile(
        "taxi", out, image=IMAGE, placement=placement, options=changes, overwrite=True
    )


def texts_of(plan):
    """The texts in a compiled pipeline by node."""
    ir, _ = Recipe.from_text(plan.recipe).build([])
    found = {}
    for node_id, _, value in node_texts(ir):
        found.setdefault(node_id, []).append(value)
    return found


def test_existing_file_is_kept_without_overwrite(tmp_path):
    out = tmp_path / "taxi.yaml"
    out.write_text("edited by hand")
    done = call("compile", "taxi", "--image", IMAGE, "--out", out)
    assert str(done.exception) == f"{out} exists already; name another output or pass --overwrite"
    assert out.read_text() == "edited by hand"


ROOT_EXISTED = Path("/penstock").exists()


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    return tmp_path_factory.mktemp("compiled") / "taxi.yaml"


@pytest.fixture(scope="module")
def plan(file):
    """The plan of taxi with a Tuner."""
    return plan_of(file, {"tune": {"trials": 3}})


@pytest.fixture(scope="module")
def taxi(plan):
    return texts_of(plan)


def test_the_tuner_is_one_task_between_transform_and_trainer(plan):
    tasks = {task.name: task for task in plan.tasks}
    assert tasks["tuner"].node_ids == ("Tuner",)
    assert "transform" in tasks["tuner"].upstream
    assert "tuner" in tasks["trainer"].upstream


def test_no_path_of_the_compiling_machine_is_in_the_file(taxi, file):
    assert len(taxi) == 12
    for place in (str(ROOT), sysconfig.get_path("purelib"), "/tmp"):
        assert place not in file.read_text()


def test_a_container_finds_schema_and_data_in_its_own_packages(taxi, taxi_csv):
    assert str(taxi_csv.parent) in taxi["ShardedExampleGen"]
    assert schema_file("taxi") in taxi["CuratedSchema"]


def test_the_root_is_the_placements_and_is_not_made(taxi):
    assert "/penstock/runs/taxi/serving_model" in taxi["Pusher"]
    assert Path("/penstock").exists() == ROOT_EXISTED


@pytest.mark.slow
def test_a_root_of_the_users_own(tmp_path):
    placement = Placement(
        pipeline_root="gs://bucket/runs", volume=None, metadata_mysql=MySqlStore("mysql")
    )
    for changes, root in (({}, "gs://bucket/runs/taxi"), ({"root": "gs://b/x"}, "gs://b/x")):
        plan = plan_of(tmp_path / "taxi.yaml", changes, placement)
        assert f"{root}/serving_model" in texts_of(plan)["Pusher"]


def test_root_outside_of_the_volume_is_refused(tmp_path):
    for root in ("runs/taxi", "/data/runs"):
        with pytest.raises(UsageError, match=r"root must lie below the volume at /penstock, got "):
            plan_of(tmp_path / "taxi.yaml", {"root": root})
    assert not list(tmp_path.iterdir())


def test_data_of_this_machine_is_refused(tmp_path, taxi_csv):
    for data in (tmp_path, taxi_csv.parent):  # in pods, the package is at another path
        with pytest.raises(UsageError, match=r"^data: .* is a path of this machine"):
            plan_of(tmp_path / "taxi.yaml", {"data": str(data)})
    check_changes({"data": str(tmp_path)}, on(tmp_path))


def test_a_name_too_long_for_tfx_is_one_clear_line(tmp_path, monkeypatch):
    (tmp_path / "long_name.py").write_text(
        "from tfx.orchestration.pipeline import Pipeline\n"
        "def create_pipeline():\n    return Pipeline('p' * 64, '/penstock/p', components=[])\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", [str(tmp_path), *sys.path])
    with pytest.raises(UsageError, match=r"name is too long for TFX: pipeline p+ exceeds .*: 63"):
        penstock.compile("long_name:create_pipeline", tmp_path / "p.yaml", image=IMAGE)


def test_cache_of_one_worker_is_refused_for_two(tmp_path):
    with pytest.raises(UsageError, match=r"'memory' is for one worker.*--set input\.cache=none"):
        plan_of(tmp_path / "taxi.yaml", {"input": {"cache": "memory"}}, Placement(workers=2))
