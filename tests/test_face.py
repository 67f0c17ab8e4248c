"""The public names: what `import penstock` provides, and which modules it loads."""

import ast
import importlib
import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import penstock

ROOT = Path(__file__).parents[1]

ROOMS = ("sources", "nodes", "training", "recipes", "kubeflow")
VALUES = {"IMAGE", "LabelFn"}  # not classes, functions or modules


def python(code, folder):
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, check=True
    )
    return done.stdout.split()


def test_top_level_names():
    assert set(penstock.__all__) == {
        *("compile", "diff", "export", "ingest", "init", "inspect", "pack", "predict", "report"),
        *("evaluate", "run", "DataError", "PenstockError", "Rows", "UsageError", "verify", *ROOMS),
    }


def test_the_reference_lists_every_public_name():
    page = (ROOT / "docs/reference/index.md").read_text()
    members = page.partition("members: [")[2].partition("]")[0].split(", ")
    assert sorted(members) == sorted(set(penstock.__all__) - set(ROOMS))


@pytest.mark.parametrize("room", ROOMS)
def test_every_public_name_is_documented(room):
    module = importlib.import_module(f"penstock.{room}")
    for name in set(module.__all__) - VALUES:
        assert inspect.getdoc(getattr(module, name)), name


@pytest.mark.parametrize(("room", "most"), [("recipes", 24), ("nodes", 20)])
def test_a_room_has_few_names(room, most):
    assert len(importlib.import_module(f"penstock.{room}").__all__) <= most


def test_no_name_is_public_in_two_rooms():
    names = [n for room in ROOMS for n in importlib.import_module(f"penstock.{room}").__all__]
    assert sorted([*names, *penstock.__all__]) == sorted({*names, *penstock.__all__})


def test_import_of_the_face_loads_nothing_heavy(tmp_path):
    heavy = {"tensorflow", "tfx", "apache_beam", "pyarrow", "numpy", "keras", "kfp", "rich"}
    rooms = ", ".join(f"penstock.{room}" for room in ROOMS)
    code = f"import sys, penstock, {rooms}; print(*{{m.split('.')[0] for m in sys.modules}})"
    assert set(python(code, tmp_path)) & heavy == set()


def test_the_folder_above_a_clone_does_not_hide_the_package(tmp_path):
    (tmp_path / "penstock" / "components").mkdir(parents=True)
    file, version = python("import penstock as p; print(p.__file__, p.__version__)", tmp_path)
    assert (file, version) == (penstock.__file__, penstock.__version__)


def test_a_name_that_is_not_there():
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = penstock.no_such_name


@pytest.mark.parametrize("use_case", ["taxi", "digits"])
def test_use_cases_import_the_face_alone(use_case):
    folder = ROOT / "pipelines" / use_case
    imported = {
        node.module
        for path in folder.glob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("penstock")
    }
    own = {m for m in imported if m.startswith(f"penstock.pipelines.{use_case}")}
    assert imported - own <= {"penstock", *(f"penstock.{room}" for room in ROOMS)}


def test_ingest_as_a_function(taxi_csv, tmp_path):
    manifest = penstock.ingest(
        str(taxi_csv),
        tmp_path / "shards",
        splits=penstock.sources.SplitOptions(
            (penstock.sources.Split("train", 9), penstock.sources.Split("eval", 1))
        ),
        options=penstock.sources.IngestOptions(shards=penstock.sources.ShardOptions(shards=2)),
    )
    assert manifest.account.read == 15002
    assert [len(shards) for shards in manifest.splits.values()] == [2, 2]
    assert penstock.verify(str(tmp_path / "shards")).records == 15002


def test_a_bad_row_is_an_error_of_one_line(tmp_path):
    (tmp_path / "trips.csv").write_text("id,fare\n1,2.5\n2,3.5,9\n")
    with pytest.raises(penstock.DataError, match=r"trips.csv: line 3 \(row 2\): 3 fields"):
        penstock.ingest(str(tmp_path / "trips.csv"), tmp_path / "shards")
    assert not (tmp_path / "shards").exists()


def test_compile_as_a_function(tmp_path):
    plan = penstock.compile("taxi", tmp_path / "taxi.yaml", image=f"penstock@sha256:{'0' * 64}")
    assert {"shardedexamplegen", "trainer"} < {task.name for task in plan.tasks}
    assert plan.tasks[-1].name.endswith("-to-pusher")
    assert (tmp_path / "taxi.yaml").exists()


def test_module_of_recipes_loads_on_first_use(tmp_path):
    assert penstock.recipes.preprocessing.NUMBERS_XF == "numbers_xf"
    code = "import sys, penstock.recipes, penstock.pipelines.blocks.config as _; "
    assert python(f"{code}print('tensorflow' in sys.modules)", tmp_path) == ["False"]
