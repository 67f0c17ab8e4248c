"""Runs of processes whose clocks differ by a day, as on machines that share only a disk."""

import json
import os
import shutil
import subprocess
import sys
from datetime import datetime, timedelta
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

PENSTOCK = Path(sys.executable).with_name("penstock")
SOURCE = Path(__file__).with_name("other_clock.c")


@pytest.fixture(scope="module")
def under_clock(tmp_path_factory):
    """A function that runs `penstock` with a clock that is `days` ahead, or behind if negative."""
    library = tmp_path_factory.mktemp("clock") / "other_clock.so"
    subprocess.run(
        ["cc", "-shared", "-fPIC", "-O1", "-o", library, SOURCE, "-ldl"], check=True, timeout=300
    )

    def run(days, *command):
        env = {
            **os.environ,
            "LD_PRELOAD": str(library),
            "CLOCK_OFFSET": str(days * 24 * 3600),
            "TF_CPP_MIN_LOG_LEVEL": "3",
        }
        done = subprocess.run([PENSTOCK, *command], env=env, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


def states(summary):
    return {node["node"]: node["state"] for node in summary["nodes"]}


@pytest.mark.timeout(1800)
def test_a_run_under_a_clock_a_day_behind_or_ahead_is_the_newest(
    tmp_path, penstock, small_taxi, under_clock
):
    root = tmp_path / "root"
    first = penstock(*small_taxi(root, "--json"))
    assert first.returncode == 0, first.stderr
    trained_on = small_taxi(root, "--json", "--set", "train.max_steps=60")

    second = json.loads(under_clock(-1, *trained_on))
    yesterday = datetime.now() - timedelta(days=1)
    logs = [datetime.strptime(log.stem, "%Y-%m-%d_%H-%M-%S") for log in (root / "logs").iterdir()]
    assert abs(min(logs) - yesterday) < timedelta(hours=12)
    assert states(second)["Transform"] == "cached"
    assert states(second)["Trainer"] == states(second)["Pusher"] == "done"
    assert second["training"]["steps"] == 60
    versions = sorted(int(version.name) for version in (root / "serving_model").iterdir())
    assert second["pushed"] == str(root / "serving_model" / str(versions[1]))

    third = json.loads(under_clock(1, *trained_on))
    not_cached = {node: state for node, state in states(third).items() if state != "cached"}
    assert not_cached == {"Baseline": "done"}  # a resolver, which always queries the store
    assert third["pushed"] == second["pushed"]
    assert third["ledger"] == second["ledger"] == json.loads(first.stdout)["ledger"]

    listed = json.loads(under_clock(0, "runs", "list", root, "--json"))
    assert [run["cached"] for run in listed] == [len(states(third)) - 1, 6, 0]
    assert listed[1]["began"] < listed[2]["began"] < listed[0]["began"]


def test_an_output_replaced_and_repaired_under_other_clocks_is_the_one_of_this_clock(
    tmp_path, penstock, taxi_csv, tree, under_clock
):
    out = tmp_path / "out"
    command = ("ingest", taxi_csv, out, "--overwrite")
    assert penstock(*command).returncode == 0
    written = tree(out)
    for days in (-1, 1):
        under_clock(days, *command)
        assert tree(out) == written
        under_clock(days, "verify", out)
    shard = next(out.glob("Split-train/*"))
    damaged = shard.read_bytes()
    shard.write_bytes(damaged[::-1])
    with pytest.raises(AssertionError, match=shard.name):
        under_clock(1, "pack", out, tmp_path / "packed")
    shutil.rmtree(out)
    under_clock(-1, *command)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out"]
