"""`penstock ingest`, as a user runs it."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from local_beam import local_pipeline

from penstock.components.engine import pipeline
from penstock.components.errors import UsageError
from penstock.components.tfrecord.manifest import read_manifest
from tests.pipelines.cli.conftest import call

PENSTOCK = Path(sys.executable).with_name("penstock")


def ingest(*arguments):
    return call("ingest", *arguments)


@pytest.fixture
def csv(tmp_path):
    path = tmp_path / "trips.csv"
    path.write_text("id;fare\n" + "".join(f"{i};{i / 2}\n" for i in range(60)))
    return path


def test_what_a_user_sees(csv, tmp_path):
    command = [PENSTOCK, "ingest", "trips.csv", "my out", "--delimiter", ";", "--shards", "2"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0
    assert done.stderr == "60 rows in 1 csv file; shards of each split: 2 as asked for\n"
    lines = done.stdout.splitlines()
    assert lines[0] == "my out: 4 shards"
    assert lines[1].split() == ["split", "rows", "shards", "size"]
    assert lines[4].startswith("60 rows read = 60 written + 0 quarantined + 0 blank, in ")
    assert lines[5] == "look closer: penstock inspect 'my out'"
    assert read_manifest(tmp_path / "my out").account.read == 60


def test_bad_data_is_one_line_and_exit_1(csv, tmp_path, penstock):
    csv.write_text(csv.read_text() + "60;cheap\n")
    done = penstock("ingest", "trips.csv", "out", "--delimiter", ";", cwd=tmp_path)
    assert done.returncode == 1
    last = done.stderr.splitlines()[-1]
    assert last.startswith("penstock: trips.csv: line 62 (row 61), column 'fare': ")
    assert last.endswith("; fix it, or quarantine it with --on-bad-row quarantine")
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "out").exists()


SPLITS = "name INPUTS, which are divided, or --input-split once for each split"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("{csv} out --compression ZIP", "--compression must be one of '', GZIP, got 'ZIP'"),
        ("{csv} out --on-bad-row skip", "--on-bad-row must be one of strict, quarantine, got"),
        ("{csv} out --shards 0", "--shards must be at least 1, got 0"),
        ("{csv} out --workers 0", "--workers must be at least 1, got 0"),
        ("{csv} out --non-finite zero", "--non-finite must be one of reject, null, keep, got"),
        ("{csv} out --split train", "--split takes NAME=VALUE, got 'train'"),
        ("{csv} out --split a=0", "split 'a': N of --split NAME=N must be at least 1, got 0"),
        ("out", SPLITS),
        ("{csv} out --input-split a=b", SPLITS),
        ("out --input-split a", "--input-split takes NAME=VALUE, got 'a'"),
        ("out --input-split a=b --split a=1", "--split and --partition-feature"),
    ],
)
def test_every_option_says_its_choices(csv, tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    result = ingest(*arguments.format(csv=csv.name).split())
    assert isinstance(result.exception, UsageError)
    assert str(result.exception).startswith(message)
    assert not (tmp_path / "out").exists()


def test_quarantine_and_its_place(csv, tmp_path):
    csv.write_text(csv.read_text() + "60;cheap\n")
    options = ("--delimiter", ";", "--on-bad-row", "quarantine", "--max-quarantined-share", "0.1")
    result = ingest(csv, tmp_path / "out", *options)
    assert result.exit_code == 0
    assert f"quarantined rows: {tmp_path / 'out' / 'quarantine'}" in result.stdout
    assert read_manifest(tmp_path / "out").account.quarantined == 1


def test_an_occupied_output_is_refused_before_the_input_is_read(tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "notes.txt").write_text("mine")
    result = ingest(tmp_path / "no-such.csv", tmp_path / "out")
    assert isinstance(result.exception, UsageError)
    assert str(result.exception) == (
        f"{tmp_path}/out exists already; name another output or pass --overwrite"
    )


def test_few_file_descriptors_give_the_output_or_one_line(csv, tmp_path):
    limited = ["sh", "-c", 'ulimit -n 12; exec "$@"', "sh", PENSTOCK]
    command = [*limited, "ingest", csv, tmp_path / "out", "--delimiter", ";"]
    command += ["--shards", "2", "--workers", "2"]
    done = subprocess.run(command, capture_output=True, text=True)
    first, *more = done.stderr.splitlines()
    assert first.startswith("60 rows in 1 csv file")
    if done.returncode:
        [line] = more
        assert line.startswith("penstock: ")
        assert "ulimit -n" in line
    else:
        assert more == []
        assert read_manifest(tmp_path / "out").account.read == 60


def test_a_tab_and_a_split_without_rows(tmp_path):
    (tmp_path / "a.csv").write_text("id\tname\n1\ta\n")
    result = ingest(tmp_path / "a.csv", tmp_path / "out", "--delimiter", "tab")
    assert result.exit_code == 0
    assert "split 'eval' has no rows\n" in result.stdout
    assert [c.name for c in read_manifest(tmp_path / "out").columns] == ["id", "name"]


# Python runs this code at the start of each process. The first process that opens a shard of train
# then waits until a signal ends it.
WAIT = """
import os, sys, time

def wait(event, arguments):
    if event == "open" and "/Split-train/" in str(arguments[0]) and not os.path.exists({begun!r}):
        os.mkdir({begun!r})
        while True:
            time.sleep(1)

sys.addaudithook(wait)
"""


@pytest.mark.slow
@pytest.mark.parametrize(("number", "workers"), [(signal.SIGTERM, 1), (signal.SIGINT, 2)])
def test_an_interrupt_leaves_one_line_and_nothing_else(
    tmp_path, tmp_path_factory, taxi_csv, number, workers
):
    hook = tmp_path_factory.mktemp("hook")
    (hook / "sitecustomize.py").write_text(WAIT.format(begun=str(hook / "begun")))
    paths = os.pathsep.join([str(hook), os.environ.get("PYTHONPATH", "")])
    process = subprocess.Popen(
        [PENSTOCK, "ingest", taxi_csv, "out", "--workers", str(workers)],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": paths},
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    while not (hook / "begun").exists():
        assert process.poll() is None, process.communicate()
        time.sleep(0.02)
    os.killpg(process.pid, number)
    _, said = process.communicate(timeout=300)
    assert process.returncode == 130
    lines = [line for line in said.splitlines() if not line.startswith("WARNING:")]
    assert lines[1:] == ["penstock: interrupted"]
    assert list(tmp_path.iterdir()) == []


def test_each_split_may_have_its_own_input(csv, tmp_path, penstock):
    (tmp_path / "more.csv").write_text("id;fare\n7;1.5\n")
    done = penstock("ingest", "out", "--input-split", "train=trips.csv", "--input-split",
                    "test=more.csv", "--delimiter", ";", cwd=tmp_path)  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert read_manifest(tmp_path / "out").account.written == {"train": 60, "test": 1}


def test_each_kind_brings_its_own_flags(tmp_path, penstock):
    (tmp_path / "a.jsonl").write_text('{"a": {"b": 1}}\n')
    done = penstock("ingest", "a.jsonl", "out", "--nested", "json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    helped = penstock("ingest", "--kind", "jsonl", "--help", cwd=tmp_path)
    assert "--nested" in helped.stdout
    assert "--delimiter" not in helped.stdout
    # A file's name determines the kind, unless --kind does.
    other = ("ingest", "a.jsonl", "other", "--delimiter", ";")
    assert "No such option: --delimiter" in penstock(*other, cwd=tmp_path).stderr
    assert "looks like JSON" in penstock(*other, "--kind", "csv", cwd=tmp_path).stderr


def test_workers_in_another_folder_find_the_input(csv, tmp_path, monkeypatch):
    def elsewhere(engine):
        os.chdir("/")
        return local_pipeline()

    monkeypatch.chdir(csv.parent)
    monkeypatch.setattr(pipeline, "engine_pipeline", elsewhere)
    engine = ("--runner", "portable", "--job-endpoint", "jobs:8099", "--parallelism", "2")
    done = ingest("*.csv", "out", *engine)
    assert done.exit_code == 0, done.output
    assert read_manifest(tmp_path / "out").account.read == 60
