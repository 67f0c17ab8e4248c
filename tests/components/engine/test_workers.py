import os
import random
import signal
import time
from contextlib import suppress

import apache_beam as beam
import psutil
import pytest
from local_beam import local_pipeline

from penstock.components.engine.workers import WORKER_LOST, _status
from penstock.components.example_gen.ingest import ingest
from penstock.components.example_gen.options import IngestInput

pytestmark = pytest.mark.faults


@pytest.mark.slow
def test_a_killed_worker_ends_the_work_within_seconds(capfd):
    def die_or_wait(element):
        if element == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(60)

    started = time.monotonic()
    with pytest.raises(RuntimeError) as error, local_pipeline(2) as pipeline:
        _ = pipeline | beam.Create([0, 1]) | beam.Reshuffle() | beam.Map(die_or_wait)
    assert time.monotonic() - started < 50  # the other worker is not waited for
    assert WORKER_LOST in str(error.value)
    assert "was killed by SIGKILL; it may have run out of memory; use" in str(error.value)
    workers = [" ".join(child.cmdline()) for child in psutil.Process().children()]
    assert not [line for line in workers if "sdk_worker_main" in line]
    assert "RpcError" not in capfd.readouterr().err


@pytest.mark.parametrize("command", ["ingest", "pack"])
def test_killed_worker_of_a_command_is_one_line_within_seconds(tmp_path, penstock, command):
    rows = "".join(f"{i},{i / 4},name {i}\n" for i in range(300_000))
    (tmp_path / "a.csv").write_text("id,fare,name\n" + rows)
    source = tmp_path / "a.csv"
    if command == "pack":
        source = tmp_path / "rows"
        ingest([IngestInput(str(tmp_path / "a.csv"))], source)
    started = penstock.start(command, source, tmp_path / "out", "--workers", "2")
    workers, until = [], time.monotonic() + 60
    while not workers and time.monotonic() < until:
        for child in psutil.Process(started.pid).children():
            with suppress(psutil.Error):
                workers += [child] if "processes._serve" in "".join(child.cmdline()) else []
        time.sleep(0.01)
    time.sleep(random.random())
    workers[0].kill()
    began = time.monotonic()
    done = started.wait()
    assert time.monotonic() - began < 20
    assert done.returncode == 1
    last = done.stderr.splitlines()[-1]
    assert f"worker process {workers[0].pid} was killed by SIGKILL; " in last
    assert "fewer workers" in last
    assert "Traceback" not in done.stderr
    assert not [path for path in os.listdir(tmp_path) if "out" in path]


@pytest.mark.parametrize(
    ("code", "said"),
    [(-9, "was killed by SIGKILL"), (137, "was killed by SIGKILL"), (1, "ended with status 1")],
)
def test_what_an_exit_status_says(code, said):
    assert _status(code) == said
