"""`penstock image`, but for Docker itself: tests/containers build and run such an image."""

import sys

import pytest

from penstock.components.errors import DataError, UsageError
from penstock.pipelines.cli.image import build_image, write_context

BASE = "registry.example/penstock@sha256:" + "0" * 64
PIPELINE = """\
from pathlib import Path

from tfx.dsl.component.experimental.annotations import Parameter
from tfx.dsl.component.experimental.decorators import component
from tfx.orchestration.pipeline import Pipeline


@component
def read(path: Parameter[str]):
    print(Path(path).read_text())


def create_pipeline():
    here = Path(__file__).parent
    return Pipeline("p", "/penstock/p", components=[read(path=str(here / "words.txt"))])
"""


@pytest.fixture
def project(tmp_path, monkeypatch):
    """The working folder of a user with a package that is not installed."""
    package = tmp_path / "project/mine_of_test"
    (package / "__pycache__").mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "pipeline.py").write_text(PIPELINE)
    (package / "words.txt").write_text("hello")
    (package / ".env").write_text("PASSWORD=x")
    monkeypatch.chdir(package.parent)
    monkeypatch.setattr("sys.path", [str(package.parent), *sys.path])
    yield package.parent
    for name in [name for name in sys.modules if name.startswith("mine_of_test")]:
        del sys.modules[name]


def test_image_context_is_dockerfile_and_package(project, tmp_path):
    write_context("mine_of_test.pipeline:create_pipeline", BASE, tmp_path / "image")

    files = {str(p.relative_to(tmp_path / "image")) for p in (tmp_path / "image").rglob("*.*")}
    assert files == {
        "mine_of_test/__init__.py",
        "mine_of_test/pipeline.py",
        "mine_of_test/words.txt",
    }
    assert (tmp_path / "image/Dockerfile").read_text().splitlines() == [
        f"FROM {BASE}",
        "COPY --chown=65532 mine_of_test /opt/user/mine_of_test",
        "ENV PYTHONPATH=/opt/user",
        'RUN python -c "import mine_of_test.pipeline"',
    ]


def test_image_context_takes_a_single_module(project, tmp_path):
    (project / "single_of_test.py").write_text(PIPELINE)
    write_context("single_of_test", BASE, tmp_path / "image")

    copied = "COPY --chown=65532 single_of_test.py /opt/user/single_of_test.py"
    assert copied in (tmp_path / "image/Dockerfile").read_text()


def test_docker_builds_the_context(project, tmp_path, monkeypatch):
    """By a stand-in for Docker, that keeps what it is called with."""
    (tmp_path / "bin").mkdir()
    docker = tmp_path / "bin/docker"
    docker.write_text(f'#!/bin/sh\necho "$@" > {tmp_path}/called\nexit "${{DOCKER_EXIT:-0}}"\n')
    docker.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:/bin:/usr/bin")
    build_image("mine_of_test", BASE, "me/mine:1")
    assert (tmp_path / "called").read_text().startswith("build --tag me/mine:1 /")

    monkeypatch.setenv("DOCKER_EXIT", "3")
    with pytest.raises(DataError, match=r"docker build of me/mine:1 failed with exit code 3"):
        build_image("mine_of_test", BASE, "me/mine:1")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(DataError, match=r"cannot run docker .*; write the folder with --out"):
        build_image("mine_of_test", BASE, "me/mine:1")


def test_missing_package_and_existing_folder_are_refused(project, tmp_path):
    with pytest.raises(UsageError, match=r"no package 'mine2_of_test'"):
        write_context("mine2_of_test", BASE, tmp_path / "image")
    (tmp_path / "image").touch()
    with pytest.raises(UsageError, match=r"image exists already; name another output$"):
        write_context("mine_of_test", BASE, tmp_path / "image")
