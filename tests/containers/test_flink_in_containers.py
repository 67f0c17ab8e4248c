"""Nodes on Flink, whose workers are containers of the image, as in docs/kubeflow/flink.md.

A container stands for a pod's worker pool, and a process of this machine in the container's network
stands for its task manager. The job manager and Beam's job server are also processes of this
machine; the S3 server is moto's, in this process. The driver and the worker pools share a folder
only for TFX's nodes; in the ingest, they share only the S3 server. The driver is in a container,
because the driver and its workers must have the same Python. The tests need Java, Maven, and root
rights to enter a container's network.
"""

import itertools
import json
import os
import shutil
import socket
import subprocess
import time
from pathlib import Path

import boto3
import pytest
from docker_cli import IMAGE, docker
from moto.server import ThreadedMotoServer

from penstock.components.engine.options import EngineOptions
from penstock.components.example_gen.ingest import ingest
from penstock.components.example_gen.options import IngestInput, IngestOptions, SplitOptions
from penstock.components.tfrecord.manifest import Manifest
from penstock.components.tfrecord.sharding import ShardOptions
from tests.free_ports import free_port

pytestmark = [pytest.mark.image, pytest.mark.timeout(600)]

JARS = Path(__file__).parents[2] / "build/flink"
FLINK = Path(__file__).with_name("flink")
JAVA = ["java", f"@{FLINK / 'java.args'}", "-cp", f"{JARS}/*"]
RUNTIME = "org.apache.flink.runtime"
TASK_MANAGERS = 2
SHARDS = 20


class Machine:
    """Starts processes on this machine, and ends them."""

    def __init__(self, folder: Path):
        self.folder = folder
        self._started = []

    def start(self, name, *command):
        with (self.folder / f"{name}.log").open("w") as log:
            process = subprocess.Popen(
                command, stdout=log, stderr=log, cwd=self.folder, stdin=subprocess.DEVNULL
            )
        self._started.append(process)
        return process

    def stop(self):
        for process in self._started:
            process.kill()
            process.wait()

    def wait_for(self, what, holds):
        until = time.monotonic() + 240
        while time.monotonic() < until:
            if holds():
                return
            time.sleep(0.5)
        logs = (f"{log.name}: {log.read_text()[-2000:]}" for log in self.folder.glob("*.log"))
        raise AssertionError("\n".join([what, *logs]))


@pytest.fixture(scope="module")
def machine(tmp_path_factory):
    started = Machine(tmp_path_factory.mktemp("flink"))
    yield started
    started.stop()


@pytest.fixture(scope="module")
def s3(network):
    server = ThreadedMotoServer(ip_address=network.host, port=0, verbose=False)
    server.start()
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith("AWS_")]:
            patch.delenv(name)
        patch.setenv("AWS_ENDPOINT_URL", f"http://{network.host}:{server.get_host_and_port()[1]}")
        patch.setenv("AWS_ACCESS_KEY_ID", "key")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
        patch.setenv("AWS_DEFAULT_REGION", "us-east-1")
        client = boto3.client("s3")
        client.create_bucket(Bucket="bucket")
        yield client
    server.stop()


class Flink:
    """A Flink session cluster, and Beam's job server, whose address is `endpoint`."""

    def __init__(self, machine, network, volume):
        self._machine, self._network = machine, network
        ports = [free_port() for _ in range(4)]
        jobs, rest, beam, artifacts = ports
        self.rest, self.endpoint = (network.host, rest), f"{network.host}:{beam}"
        (machine.folder / "config.yaml").write_text(
            (FLINK / "config.yaml")
            .read_text()
            .format(host=network.host, jobs=jobs, rest=rest, disk=machine.folder)
        )
        self._configured = ["--configDir", str(machine.folder)]
        entry = f"{RUNTIME}.entrypoint.StandaloneSessionClusterEntrypoint"
        machine.start("job-manager", *JAVA, entry, *self._configured)
        machine.start(
            "job-server",
            *(*job_server_java(), "org.apache.beam.runners.flink.FlinkJobServerDriver"),
            *(f"--flink-master={network.host}:{rest}", f"--job-host={network.host}"),
            *(f"--job-port={beam}", f"--artifact-port={artifacts}", "--expansion-port=-1"),
        )
        share = f"--volume={volume}:/penstock"
        self._pools = [run_apart(network, WORKER_POOL, share) for _ in range(TASK_MANAGERS)]
        self._tries = itertools.count()
        self.managers = [self.start_task_manager(at) for at in range(TASK_MANAGERS)]

    def start_task_manager(self, at):
        """Starts a task manager in the network of its worker pool's container."""
        process = docker("inspect", "--format", "{{.State.Pid}}", self._pools[at])
        own = "{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}"
        address = docker("inspect", "--format", own, self._pools[at])
        return self._machine.start(
            f"task-manager-{at}-{next(self._tries)}",
            *("nsenter", f"--net=/proc/{process}/ns/net", *JAVA),
            *(f"{RUNTIME}.taskexecutor.TaskManagerRunner", *self._configured),
            *("-D", f"taskmanager.host={address}"),
        )

    def stop(self):
        docker("rm", "--force", *self._pools)


def job_server_java():
    """The Java command of Beam's job server, which sends the jars in `-cp` with each job.

    All jars together are 150 MB, and the task managers already have them. Jars that do not refer to
    Flink's or the runner's own jars go to the boot class path, which is not sent, so 11 MB remain.
    """
    seen = {jar for name in ("flink-*", "beam-runners-flink-*") for jar in JARS.glob(name)}
    seen -= {jar for name in ("flink-shaded-*", "flink-rpc-akka*") for jar in JARS.glob(name)}
    rest = ":".join(str(jar) for jar in sorted(set(JARS.glob("*.jar")) - seen))
    path = ":".join(map(str, sorted(seen)))
    return ["java", f"@{FLINK / 'java.args'}", f"-Xbootclasspath/a:{rest}", "-cp", path]


WORKER_POOL = (
    *("python", "-W", "ignore", "-m", "apache_beam.runners.worker.worker_pool_main"),
    "--service_port=50000",
)


def run_apart(network, command, *options):
    """Starts a container of the image, with a tmpfs as its disk; returns its id."""
    names = [f"--env={name}" for name in os.environ if name.startswith("AWS_")]
    return docker(
        *("run", "--detach", "--read-only", "--tmpfs", "/tmp", "--network", network.name),
        *(*names, *options, IMAGE, *command),
    )


@pytest.fixture(scope="module")
def volume(tmp_path_factory):
    """Folder that containers see as /penstock."""
    folder = tmp_path_factory.mktemp("volume")
    folder.chmod(0o777)  # containers run as another user than this process
    return folder


@pytest.fixture(scope="module")
def flink(machine, network, s3, volume):
    subprocess.run(
        [
            *("mvn", "--batch-mode", "--quiet", "--file", FLINK),
            *("dependency:copy-dependencies", f"-DoutputDirectory={JARS}"),
        ],
        check=True,
    )
    started = Flink(machine, network, volume)
    try:
        machine.wait_for("no job server", lambda: listens(started.endpoint))
        yield started
    finally:
        started.stop()


def test_lost_task_manager_changes_no_byte(flink, machine, network, s3, taxi_csv, tmp_path):
    s3.upload_file(str(taxi_csv), "bucket", "in/trips.csv")
    options = IngestOptions(shards=ShardOptions(shards=SHARDS))
    job = IngestInput("s3://bucket/in", splits=SplitOptions())
    here = ingest([job], tmp_path / "out", options)

    command = ("penstock", "ingest", "s3://bucket/in", "s3://bucket/out", f"--shards={SHARDS}")
    engine = ("--runner=portable", f"--job-endpoint={flink.endpoint}", "--parallelism=2")
    driver = run_apart(network, (*command, *engine))
    try:
        # Waits until half of all shards of the two splits exist.
        machine.wait_for("no shards", lambda: shards(s3) >= SHARDS or not runs(driver))
        flink.managers[0].kill()
        flink.managers[0] = flink.start_task_manager(0)
        status = docker("wait", driver)
        logs = docker("logs", driver)
    finally:
        docker("rm", "--force", driver)

    assert status == "0", logs
    written = s3.get_object(Bucket="bucket", Key="out/manifest.json")["Body"].read()
    assert Manifest.from_json(written.decode(), "out") == here
    assert here.account.read == 15_002
    assert shards(s3) == 2 * SHARDS


def test_nodes_in_batches_write_the_bytes_of_one_process(flink, network, volume, taxi_csv):
    (volume / "data").mkdir()
    shutil.copy(taxi_csv, volume / "data")
    shutil.copy(Path(__file__).with_name("batch_nodes.py"), volume)
    # The parallelism is 1, because each job starts a worker for each of its slots, and each worker
    # imports TensorFlow.
    engine = EngineOptions(runner="portable", job_endpoint=flink.endpoint, parallelism=1)
    command = ("python", "/penstock/batch_nodes.py", "/penstock/data", "/penstock")
    share = f"--volume={volume}:/penstock"
    driver = run_apart(network, (*command, *engine.beam_args()), share)
    try:
        status = docker("wait", driver)
        logs = subprocess.run(["docker", "logs", driver], capture_output=True, text=True)
    finally:
        docker("rm", "--force", driver)
    assert status == "0", logs.stderr
    here, there = json.loads(logs.stdout.splitlines()[-1])
    nodes = {name.partition("/")[0] for name in here}
    assert nodes >= {
        *("BatchStatisticsGen", "BatchTransform", "Pack", "ShardedExampleGen", "BatchEvaluator"),
    }
    assert there == here


def listens(address):
    host, port = address.split(":")
    with socket.socket() as attempt:
        return attempt.connect_ex((host, int(port))) == 0


def runs(container):
    return docker("inspect", "--format", "{{.State.Running}}", container) == "true"


def shards(s3):
    return s3.list_objects_v2(Bucket="bucket", Prefix="out/Split-")["KeyCount"]
