"""The three commands in a package's README that bring it onto a cluster.

Docker is a script that records its arguments, and KFP's API is a server on loopback that runs
nothing; tests/containers builds and runs an image.
"""

import os
import shlex
import subprocess

import pytest

from tests.pipelines.cli.conftest import server  # noqa: F401  # a fixture

pytestmark = pytest.mark.slow

DIGEST = "sha256:" + "0" * 64


def test_commands_of_the_readme_build_compile_and_submit(penstock, tmp_path, server):  # noqa: F811
    rows = [f"{i % 60},{'abc'[i % 3]},{'yes' if i % 4 else 'no'}" for i in range(200)]
    (tmp_path / "rows.csv").write_text("\n".join(["age,city,bought", *rows]) + "\n")
    docker = tmp_path / "bin/docker"
    docker.parent.mkdir()
    docker.write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/docker.log\n')
    docker.chmod(0o755)
    environment = {**os.environ, "PATH": f"{docker.parent}:{os.environ['PATH']}"}

    def run(*arguments, folder):
        done = penstock.start(*arguments, env=environment, cwd=folder).wait()
        assert done.returncode == 0, done.stderr
        return done

    run("init", "churn", "--data", "rows.csv", "--target", "bought", folder=tmp_path)
    folder = tmp_path / "churn"
    readme = (folder / "README.md").read_text()
    for placeholder, value in (
        ("REGISTRY", "registry.example"),
        ("sha256:...", DIGEST),
        ("gs://BUCKET/FOLDER", "gs://bucket/rows"),
        ("https://KFP", server.host),
    ):
        readme = readme.replace(placeholder, value)
    lines = [shlex.split(line) for line in readme.splitlines() if "registry.example" in line]
    lines += [shlex.split(line) for line in readme.splitlines() if "penstock submit" in line]
    assert [line[1] for line in lines] == ["build", "compile", "submit"]

    subprocess.run(
        shlex.join(lines[0]).replace("'&&'", "&&"),
        shell=True,
        cwd=folder,
        env=environment,
        check=True,
    )
    assert (tmp_path / "docker.log").read_text().splitlines() == [
        f"build --build-arg BASE=registry.example/penstock@{DIGEST} --tag registry.example/churn .",
        "push registry.example/churn",
    ]
    assert 'RUN python -c "import churn.pipeline"' in (folder / "Dockerfile").read_text()
    run(*lines[1][1:], folder=folder)
    run(*lines[2][1:], folder=folder)
    [body] = [body for _, path, _, body, _ in server.requests if path.endswith("/runs")]
    parameters = body["pipeline_spec"]["pipeline_spec"]["root"]["inputDefinitions"]["parameters"]
    assert parameters["data"]["defaultValue"] == "gs://bucket/rows"
