"""Ingest and pack on a Beam job server; its workers share only an S3 server with the driver.

The engine has two processes: a job server and a worker pool. If the machine allows a mount
namespace, a tmpfs hides the driver's folder from the pool.
"""

import os
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from penstock.components.engine.options import EngineOptions
from penstock.components.engine.tasks import task_engine
from penstock.components.errors import DataError, UsageError
from penstock.components.example_gen.ingest import ingest
from penstock.components.example_gen.options import IngestInput, IngestOptions
from penstock.components.packing.options import PackOptions
from penstock.components.packing.pack import pack
from penstock.components.sources import spread
from penstock.components.tfrecord.sharding import ShardOptions
from tests.free_ports import free_port

pytestmark = pytest.mark.slow
RUNNERS = "apache_beam.runners"
_PRIVATE = ["unshare", "--map-root-user", "--mount", "sh", "-c"]
_MOUNT = 'mount -t tmpfs none "$0" && exec "$@"'


def listens(port):
    with socket.socket() as one:
        return one.connect_ex(("localhost", port)) == 0


def has_namespaces(folder):
    test = [*_PRIVATE, _MOUNT, str(folder), "true"]
    return shutil.which("unshare") and not subprocess.run(test, capture_output=True).returncode


@pytest.fixture
def engine(s3, tmp_path):
    """Options for a running job server and a running worker pool."""
    home = tmp_path / "home"
    home.mkdir()
    job, pool = free_port(), free_port()
    # The pool starts workers with the command `python`, which is looked up in PATH.
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "TMPDIR": str(home)}
    private = [*_PRIVATE, _MOUNT, str(tmp_path)]
    commands = [
        [f"{RUNNERS}.portability.local_job_service_main", f"--port={job}"],
        [f"{RUNNERS}.worker.worker_pool_main", f"--service_port={pool}"],
    ]
    processes = []
    for at, command in enumerate(commands):
        command = [sys.executable, "-W", "ignore", "-m", *command]
        with (tmp_path / f"{at}.log").open("w") as log:
            processes.append(
                subprocess.Popen(
                    [*(private if at and has_namespaces(tmp_path) else []), *command],
                    stdout=log,
                    stderr=log,
                    env={**environment, "TMPDIR": str(tmp_path if at else home)},
                )
            )
    until = time.monotonic() + 500
    while not (listens(job) and listens(pool)) and time.monotonic() < until:
        time.sleep(0.1)
    yield EngineOptions(
        runner="portable",
        job_endpoint=f"localhost:{job}",
        worker_pool=f"localhost:{pool}",
        parallelism=1,
    )
    for process in processes:
        process.terminate()
        process.wait(10)


def run(engine, output, **options):
    options = IngestOptions(**{"shards": ShardOptions(shards=4), **options})
    return ingest([IngestInput("s3://bucket/in")], output, options, engine=engine)


def test_the_same_bytes_as_in_process(s3, engine, tmp_path, monkeypatch):
    monkeypatch.setattr(spread, "_WORTH_ENGINE_BYTES", 0)
    lines = [f"{i},{i / 4 if i != 41 else 'x'},name {i}" for i in range(40_000)]
    for at in range(2):
        text = "id,fare,name\n" + "\n".join(lines[at::2]) + "\n"
        s3.put_object(Bucket="bucket", Key=f"in/{at}.csv", Body=text.encode())
    options = {"on_bad_row": "quarantine"}
    here = run(1, tmp_path / "out", **options)
    there = run(task_engine(engine), "s3://bucket/out", **options)
    assert there == here
    assert there.account.quarantined == 1
    options = PackOptions(ids=("name",))
    packed = pack(str(tmp_path / "out"), tmp_path / "packed", options)
    address = "s3://bucket/packed"
    elsewhere = task_engine(engine)
    assert pack("s3://bucket/out", address, options, engine=elsewhere) == packed
    with pytest.raises(UsageError, match="no column 'none' with a value; there are fare, id, name"):
        pack("s3://bucket/out", f"{address}2", PackOptions(ids=("none",)), engine=elsewhere)
    with pytest.raises(DataError, match=r"in/1\.csv: line 22 \(row 21\), column 'fare'"):
        run(task_engine(engine), "s3://bucket/strict")
    found = s3.list_objects_v2(Bucket="bucket", Prefix="strict")
    assert found["KeyCount"] == 0


def test_output_that_workers_do_not_see_is_one_line(s3, engine, tmp_path):
    if not has_namespaces(tmp_path):
        pytest.skip("needs mount namespaces")
    s3.put_object(Bucket="bucket", Key="in/a.csv", Body=b"id\n1\n2\n")
    with pytest.raises(DataError) as error:
        run(task_engine(engine), tmp_path / "unseen", shards=ShardOptions(shards=1))
    text = str(error.value)
    assert text.startswith("the output is not seen by the worker on ")
    assert "\n" not in text
    assert len(text) < 400
    assert not (tmp_path / "unseen").exists()
