"""A pipeline from outside the repository, in a package of its own: `penstock image` to a run."""

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.image, pytest.mark.timeout(1200)]

OWN = "penstock-own:test"
PIPELINE = """\
from pathlib import Path

from tfx.dsl.component.experimental.annotations import OutputArtifact, Parameter
from tfx.dsl.component.experimental.decorators import component
from tfx.orchestration.pipeline import Pipeline
from tfx.types.standard_artifacts import Examples


@component
def copy_words(words: Parameter[str], examples: OutputArtifact[Examples]):
    Path(examples.uri, "words.txt").write_text(Path(words).read_text())


def create_pipeline():
    words = Path(__file__).parent / "words.txt"
    return Pipeline("own", "/penstock/own", components=[copy_words(words=str(words))])
"""


def test_user_package_runs_from_its_own_image(cluster, tmp_path):
    package = tmp_path / "mine"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "pipeline.py").write_text(PIPELINE)
    (package / "words.txt").write_text("hello")
    subprocess.run(
        [
            *(Path(sys.executable).parent / "penstock", "image", "mine.pipeline"),
            *("--base", cluster.image, "--allow-mutable-tag", "--tag", OWN),
        ],
        cwd=tmp_path,
        check=True,
    )
    run = cluster.run_well(cluster.compile("mine.pipeline:create_pipeline", "own", image=OWN))

    assert run.states == {"copy_words": "COMPLETE"}
    copied = cluster.on_volume(run.output("copy_words", "examples")) / "words.txt"
    assert copied.read_text() == "hello"
