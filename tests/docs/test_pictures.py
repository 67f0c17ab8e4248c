"""`python docs/hooks/draw.py` draws the SVGs of README and docs/architecture.md."""

import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def draw():
    spec = importlib.util.spec_from_file_location("draw", ROOT / "docs/hooks/draw.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_pictures_are_those_of_the_code(draw, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # the pipeline creates the folder of its metadata
    assert draw.dag()["Trainer"] == ["CuratedSchema", "Transform"]
    assert "tfrecord" in draw.rooms()["files"]
    for name, svg in draw.pictures().items():
        path = ROOT / f"docs/images/{name}.svg"
        assert path.read_text() == svg, f"{name}: python docs/hooks/draw.py"
