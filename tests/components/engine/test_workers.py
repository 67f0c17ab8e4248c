import os
import signal
import time

import apache_beam as beam
import psutil
import pytest

from penstock.components.engine.pipeline import local_pipeline
from penstock.components.engine.workers import WORKER_LOST, _status
from penstock.components.errors import DataError
from penstock.components.example_gen.ingest import ingest, plan_job
from penstock.components.example_gen.options import IngestOptions
from penstock.components.example_gen.split_options import SplitOptions
from penstock.components.sources.open import open_source

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


def test_an_ingest_says_it_in_one_line(tmp_path):
    (tmp_path / "a.csv").write_text("id\n1\n2\n")
    job = plan_job(open_source(str(tmp_path / "a.csv")), SplitOptions(), IngestOptions())

    def lost():
        raise RuntimeError(f"bundle failed: {WORKER_LOST} process 7 was killed by SIGKILL; advice")

    with pytest.raises(DataError, match=r"^Beam worker lost: process 7 was killed by SIG"):
        ingest([job], tmp_path / "out", IngestOptions(), lost)
    assert os.listdir(tmp_path) == ["a.csv"]


@pytest.mark.parametrize(
    ("code", "said"),
    [(-9, "was killed by SIGKILL"), (137, "was killed by SIGKILL"), (1, "ended with status 1")],
)
def test_what_an_exit_status_says(code, said):
    assert _status(code) == said
