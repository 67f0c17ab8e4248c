import csv
import io
import json
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.benchmarks import scale_ingest

SCRIPT = Path(__file__).parents[2] / "benchmarks/scale_ingest.py"


def test_parts_of_made_rows_are_those_of_the_whole(monkeypatch):
    monkeypatch.setattr(scale_ingest, "BAD_EVERY", 20)
    made = scale_ingest.MadeCsv(50)
    whole = made.part(0, made.size)
    assert len(whole) == made.size == 14 + 50 * 2000
    for size in (7, 1999, 30_000):
        parts = [made.part(at, min(at + size, made.size)) for at in range(0, made.size, size)]
        assert b"".join(parts) == whole
    header, *rows = csv.reader(io.StringIO(whole.decode(), newline=""), strict=True)
    assert header == ["id", "value", "text"]
    bad = {19: "x0000019", 39: "x0000039"}
    assert [row[0] for row in rows] == [bad.get(at, str(10_000_000 + at)) for at in range(50)]
    assert len({row[2] for row in rows}) == 13
    assert all("\n" in row[2] and '"' in row[2] for row in rows)


@pytest.mark.slow
def test_80_mb_through_a_disk_of_32():
    command = [sys.executable, SCRIPT, "--rows", "40000", "--disk-mib", "32", "--json"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    account = {"read": 40_000, "written": {"train": 26_572, "eval": 13_427}, "quarantined": 1}
    assert found["ingest"]["said"]["account"] == {**account, "blank": 0}
    assert (found["verify"]["said"]["records"], found["verify"]["said"]["faults"]) == (39_999, [])
    assert 0 < found["ingest"]["disk_mib"] < 32
