"""The pictures of docs/architecture.md are drawn from the code by `python docs/hooks/draw.py`."""

import importlib.util
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "docs/hooks/draw.py"


@pytest.fixture(scope="module")
def draw():
    spec = importlib.util.spec_from_file_location("draw", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_picture_of_the_dag_equals_the_taxi_pipeline(draw, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # the pipeline makes the folder of its metadata
    assert "Trainer -- Model --> Evaluator" in draw.drawn("dag")
    assert draw.drawn("dag") == draw.dag()


def test_picture_of_the_rooms_equals_their_imports(draw):
    assert 'components_files["files"] --> components_tfrecord["tfrecord"]' in draw.drawn("rooms")
    assert draw.drawn("rooms") == draw.rooms()
