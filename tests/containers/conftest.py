"""A pipeline in local containers: Docker in place of a cluster, a folder in place of a volume.

The tests need a Docker daemon, the image (`make image`), and a Python that has kfp, which the
command `make test-image` installs.
"""

import json
import os
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from docker_cli import IMAGE, docker

ROOT = Path(__file__).parents[2]
KFP_PYTHON = os.environ.get("KFP_PYTHON", str(ROOT / "build/kfp/bin/python"))


@dataclass(frozen=True)
class Run:
    """One run of a pipeline.

    Attributes:
        executions: Execution of each node: its `state`, and `inputs` and `outputs`, which map keys
            to addresses of artifacts.
    """

    executions: Mapping[str, Mapping]

    @property
    def states(self):
        return {node: execution["state"] for node, execution in self.executions.items()}

    def input(self, node, key):
        return self.executions[node]["inputs"][key]

    def output(self, node, key):
        return self.executions[node]["outputs"][key]


@dataclass(frozen=True)
class Cluster:
    """Runs commands and compiled pipelines in containers.

    Attributes:
        volume: Folder that containers see as /penstock.
        network: The Docker network of the containers.
        environment: Environment variables of the containers, as if they came from a Kubernetes
            secret.
        store: The metadata store, in the form that `penstock node` takes.
        image: Penstock's image.
    """

    volume: Path
    network: str = "none"
    environment: Mapping[str, str] = field(default_factory=dict)
    store: str = "/penstock/metadata.sqlite"
    image: str = IMAGE

    def __post_init__(self):
        self.volume.chmod(0o777)  # containers run as another user than this process

    def compile_taxi(self, name, *assignments, placement="retry: {times: 0}"):
        """Compiles the taxi pipeline in the image; returns the file on the volume."""
        settings = (option for text in assignments for option in ("--set", text))
        return self.compile("taxi", name, *settings, placement=placement)

    def compile(self, pipeline, name, *options, placement="retry: {times: 0}", image=IMAGE):
        """Compiles a pipeline in its image; returns the file on the volume."""
        (self.volume / "placement.yaml").write_text(placement)
        self._in_image(
            *("penstock", "compile", pipeline, "--image", image, "--allow-mutable-tag", *options),
            *("--placement", "/penstock/placement.yaml", "--out", f"/penstock/{name}.yaml"),
            image=image,
        )
        return self.volume / f"{name}.yaml"

    def run(self, file):
        """Runs a compiled pipeline to its end with kfp's local engine, which logs on stdout."""
        return subprocess.run(
            [
                *(KFP_PYTHON, ROOT / "k8s/run_local.py", file, "--volume", self.volume),
                *("--network", self.network, *(f"--env={name}" for name in self.environment)),
            ],
            env={**os.environ, **self.environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def run_well(self, file):
        """Runs a compiled pipeline that must succeed."""
        done = self.run(file)
        assert done.returncode == 0, done.stdout
        return self.last_run()

    def last_run(self):
        """Facts of the latest run in the metadata store."""
        shutil.copy(Path(__file__).with_name("print_executions.py"), self.volume)
        everything = json.loads(
            self._in_image("python", "/penstock/print_executions.py", self.store)
        )
        run = everything[-1]["run"]
        return Run({found["node"]: found for found in everything if found["run"] == run})

    def on_volume(self, path):
        """Path on this machine of the file that containers see at `path`."""
        return self.volume / Path(path).relative_to("/penstock")

    def _in_image(self, *command, image=IMAGE):
        done = subprocess.run(
            [
                *("docker", "run", "--rm", "--read-only", "--tmpfs", "/tmp"),
                *("--network", self.network, *(f"--env={name}" for name in self.environment)),
                *("--volume", f"{self.volume}:/penstock", image, *command),
            ],
            env={**os.environ, **self.environment},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


@pytest.fixture(scope="session", autouse=True)
def _containers_can_run():
    for command, remedy in (
        (["docker", "image", "inspect", IMAGE], "make image"),
        ([KFP_PYTHON, "-c", "import kfp, docker"], "make test-image"),
    ):
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            pytest.exit(f"{done.stderr.strip()}\ntry: {remedy}", returncode=1)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """A stand-in for a cluster, without network, with metadata in sqlite on the volume."""
    return Cluster(tmp_path_factory.mktemp("volume"))


@dataclass(frozen=True)
class Network:
    """A Docker network that leads only to this machine; `host` is this machine's address in it."""

    name: str
    host: str


@pytest.fixture(scope="module")
def network():
    name = f"penstock-test-{os.getpid()}"
    docker("network", "create", "--internal", name)
    try:
        gateway = "{{(index .IPAM.Config 0).Gateway}}"
        yield Network(name, docker("network", "inspect", "--format", gateway, name))
    finally:
        docker("network", "rm", name)
