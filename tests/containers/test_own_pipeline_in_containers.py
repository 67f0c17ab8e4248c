"""A user's pipeline in a separate package, from the Dockerfile of `penstock init` to a run."""

from pathlib import Path

import pytest
from docker_cli import docker

pytestmark = [pytest.mark.image, pytest.mark.timeout(1200)]

OWN = "penstock-own:test"
TEMPLATES = Path(__file__).parents[2] / "pipelines/starter/templates/shared"
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
    dockerfile = (TEMPLATES / "Dockerfile.j2").read_text().replace("{{ package }}", "mine")
    (tmp_path / "Dockerfile").write_text(dockerfile)
    docker("build", "--build-arg", f"BASE={cluster.image}", "--tag", OWN, str(tmp_path))
    run = cluster.run_well(cluster.compile("mine.pipeline:create_pipeline", "own", image=OWN))

    assert run.states == {"copy_words": "COMPLETE"}
    copied = cluster.on_volume(run.output("copy_words", "examples")) / "words.txt"
    assert copied.read_text() == "hello"
