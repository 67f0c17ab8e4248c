"""`penstock validate` as its user runs it."""

import json

import pytest
from typer.testing import CliRunner

from penstock.components.errors import DataError, UsageError
from penstock.pipelines.cli.main import app


@pytest.fixture(scope="module")
def folder(tmp_path_factory, penstock):
    folder = tmp_path_factory.mktemp("user")
    (folder / "trips.csv").write_text(
        "fare,label\n" + "".join(f"{i / 2},1\n" for i in range(60)) + "1,2,3\n"
    )
    options = ("--on-bad-row", "quarantine", "--max-quarantined-share", 0.1)
    done = penstock("ingest", "trips.csv", "shards", "--shards", 1, *options, cwd=folder)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.mark.slow
def test_data_that_is_unfit_is_exit_1_and_kept_for_a_closer_look(folder, penstock):
    done = penstock(
        "validate", "shards", "--label", "label", "--out", "checked", "--json",
        "--max-quarantined-share", 0.1, cwd=folder,
    )  # fmt: skip

    assert done.returncode == 1
    problems = [
        f"split '{split}', label 'label': has one value in all rows; expected at least two classes"
        for split in ("train", "eval")
    ]
    found = json.loads(done.stdout)
    assert (found["problems"], found["features"], found["schema"]) == (problems, 2, "inferred")
    assert sum(found["rows"].values()) == 60
    assert found["quarantined_share"] == 1 / 61
    assert done.stderr.splitlines() == [
        "checking the bytes of 2 shards",
        "statistics of split 'train'",
        "statistics of split 'eval'",
        "penstock: the data is unfit to train on, 2 problem(s):",
        *(f"  - {problem}" for problem in problems),
    ]
    assert (folder / "checked/report.html").exists()


def validate(*arguments):
    return CliRunner().invoke(app, ["validate", *map(str, arguments)])


def test_wrong_use(folder):
    done = validate(folder / "shards", "--out", folder)
    assert isinstance(done.exception, UsageError)
    assert str(done.exception) == f"{folder} exists already; name a new folder"

    done = validate(folder / "shards", "--max-quarantined-share", 2)
    assert done.exit_code == 2

    (folder / "bin.pbtxt").write_bytes(b"\xff\xfe")
    done = validate(folder / "shards", "--schema", folder / "bin.pbtxt")
    assert isinstance(done.exception, DataError)
    assert str(done.exception) == (
        f"{folder}/bin.pbtxt: cannot read the schema ('utf-8' codec can't decode byte 0xff in "
        "position 0: invalid start byte)"
    )

    done = validate(folder / "nothing")
    assert isinstance(done.exception, DataError)
    assert str(done.exception).startswith(f"{folder}/nothing: no Examples folder, it has neither ")
