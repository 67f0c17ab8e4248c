import json
import subprocess
import sys

import pytest

from penstock.benchmarks.harness import Measured, in_turn, median, runs_in_turn
from penstock.components.errors import DataError

SCRIPT = """
import json, os, pathlib, sys
_, name, said = sys.argv[1:]
with (pathlib.Path(__file__).parent / "order").open("a") as out:
    out.write(name + " ")
if name == "broken":
    sys.exit("no such shard")
if name == "killed":
    os.kill(os.getpid(), 9)
print("noise")
print(said)
"""


@pytest.fixture
def script(tmp_path):
    path = tmp_path / "contenders.py"
    path.write_text(SCRIPT)
    return path


def test_contenders_run_in_turn_in_every_round(script):
    found = runs_in_turn(str(script), [("a", ['{"x": 1}']), ("b", ['{"x": 2}'])], rounds=3)
    assert found == {"a": [{"x": 1}] * 3, "b": [{"x": 2}] * 3}
    assert (script.parent / "order").read_text() == "a b a b a b "


def test_a_contender_that_fails_is_one_line(script):
    with pytest.raises(DataError) as caught:
        runs_in_turn(str(script), [("broken", ["{}"])], rounds=1)
    assert str(caught.value) == "broken failed: no such shard"


def test_a_contender_that_is_killed_is_one_line(script):
    with pytest.raises(DataError) as caught:
        runs_in_turn(str(script), [("killed", ["{}"])], rounds=1)
    assert str(caught.value) == "killed was ended by signal 9; 9 is what lack of memory does"


def test_the_median_is_of_each_figure(script):
    runs = [Measured(10, 1.0, 5.0, 7.0), Measured(10, 3.0, 4.0, 9.0), Measured(10, 2.0, 6.0, 8.0)]
    assert median(runs) == Measured(10, 2.0, 5.0, 8.0)
    one = json.dumps({"rows": 10, "wall_seconds": 1.0, "cpu_seconds": 0.5, "peak_mib": 3.0})
    assert in_turn(str(script), [("a", [one])], 1) == {"a": Measured(10, 1.0, 0.5, 3.0)}


def test_the_peak_of_a_process_is_not_that_of_its_parent():
    held = bytearray(300 << 20)
    code = "from penstock.benchmarks.harness import peak_mib_now as peak; print(peak())"
    child = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert float(child.stdout) < len(held) >> 20
