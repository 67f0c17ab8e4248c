import os
import signal
import time
from contextlib import suppress

import apache_beam as beam
import psutil
import pytest
from local_beam import local_pipeline

from penstock.components.engine.pipeline import WORKER_LOST
from penstock.components.example_gen.ingest import ingest
from penstock.components.example_gen.options import IngestInput
from penstock.components.tfrecord.checked import checked_manifest

pytestmark = pytest.mark.slow


def test_a_killed_worker_without_gpus_ends_the_work_of_the_others(capfd):
    def die_or_wait(element):
        assert os.environ["CUDA_VISIBLE_DEVICES"] == "-1"
        if element == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(1000)

    started = time.monotonic()
    with pytest.raises(RuntimeError) as error, local_pipeline(2) as pipeline:
        _ = pipeline | beam.Create([0, 1]) | beam.Reshuffle() | beam.Map(die_or_wait)
    assert time.monotonic() - started < 500  # did not wait for the sleeping worker
    assert WORKER_LOST in str(error.value)
    assert "was killed by SIGKILL; it may have run out of memory; use" in str(error.value)
    workers = [" ".join(child.cmdline()) for child in psutil.Process().children()]
    assert not [line for line in workers if "sdk_worker_main" in line]
    assert "RpcError" not in capfd.readouterr().err


# The `sitecustomize.py` that Python runs at the start of each process. The worker process that
# creates the folder `begun` stops before its first task.
STOP = """
import os, signal, sys
if "processes._serve" in "".join(sys.orig_argv):
    try:
        os.mkdir({begun!r})
    except FileExistsError:
        pass
    else:
        os.kill(os.getpid(), signal.SIGSTOP)
"""


@pytest.fixture
def stopped(tmp_path, tmp_path_factory, penstock):
    """A function that starts a command with two workers; one is stopped by SIGSTOP at its start."""

    def start(command):
        rows = "".join(f"{i},{i / 4},name {i}\n" for i in range(20_000))
        (tmp_path / "a.csv").write_text("id,fare,name\n" + rows)
        source = tmp_path / "a.csv"
        if command == "pack":
            source = tmp_path / "rows"
            ingest([IngestInput(str(tmp_path / "a.csv"))], source)
        hook = tmp_path_factory.mktemp("hook")
        (hook / "sitecustomize.py").write_text(STOP.format(begun=str(hook / "begun")))
        paths = os.pathsep.join([str(hook), os.environ.get("PYTHONPATH", "")])
        env = {**os.environ, "PYTHONPATH": paths}
        started = penstock.start(command, source, tmp_path / "out", "--workers", "2", env=env)
        while started.is_running():
            for child in psutil.Process(started.pid).children():
                with suppress(psutil.Error):
                    if child.status() == psutil.STATUS_STOPPED:
                        return started, child
            time.sleep(0.01)
        raise AssertionError(started.wait().stderr)

    return start


@pytest.mark.parametrize("command", ["ingest", "pack"])
def test_killed_worker_of_a_command_is_one_line(tmp_path, stopped, command):
    started, worker = stopped(command)
    worker.kill()
    done = started.wait()
    assert done.returncode == 1
    last = done.stderr.splitlines()[-1]
    assert f"worker process {worker.pid} was killed by SIGKILL; " in last
    assert "fewer workers" in last
    assert "Traceback" not in done.stderr
    assert not [path for path in os.listdir(tmp_path) if "out" in path]


def test_interrupted_command_ends_its_stopped_worker(tmp_path, stopped):
    started, worker = stopped("ingest")
    os.kill(started.pid, signal.SIGINT)
    done = started.wait()
    assert done.returncode == 130
    assert "penstock: interrupted" in done.stderr
    with suppress(psutil.NoSuchProcess):  # raised once the killed worker is reaped
        while worker.status() != psutil.STATUS_ZOMBIE:
            time.sleep(0.01)
    assert os.listdir(tmp_path) == ["a.csv"]


def test_stopped_worker_that_goes_on_gives_the_same_output(tmp_path, stopped):
    started, worker = stopped("ingest")
    worker.resume()
    done = started.wait()
    assert done.returncode == 0, done.stderr
    ingest([IngestInput(str(tmp_path / "a.csv"))], tmp_path / "one")
    assert checked_manifest(tmp_path / "out") == checked_manifest(tmp_path / "one")
