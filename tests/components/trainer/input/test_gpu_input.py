"""The benchmark that a machine with a GPU is to run, on what there is."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARK = Path(__file__).parents[4] / "benchmarks" / "gpu_input.py"


@pytest.mark.slow
def test_the_share_of_time_that_the_accelerator_waits_is_measured(tmp_path):
    done = subprocess.run(
        [
            *(sys.executable, str(BENCHMARK), "--rows", "16384", "--seconds", "0.5"),
            *("--rounds", "1", "--units", "32", "--data", str(tmp_path), "--json"),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    results = json.loads(done.stdout)
    assert list(results) == ["naive", "row Examples", "packed", "one batch"]
    for figures in results.values():
        assert 0 <= figures["wait_share"] <= 1
        assert figures["rows_per_second"] > 0
        assert figures["verdict"].split(":")[0] in ("input-bound", "balanced", "compute-bound")
    assert results["naive"]["verdict"].startswith("input-bound: ")
    assert results["naive"]["rows_per_second"] < results["packed"]["rows_per_second"] / 2
