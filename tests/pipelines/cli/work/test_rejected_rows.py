import json

import pytest
import typer
from typer.testing import CliRunner

from penstock.components.errors import DataError
from penstock.components.example_gen.quarantine import QuarantineWriter
from penstock.components.sources.base import RejectedRow
from penstock.pipelines.cli import inspect

app = typer.Typer()
app.command("inspect")(inspect.command)


def run(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def write_rejected(path, rows):
    path.parent.mkdir(exist_ok=True)
    with QuarantineWriter(path) as writer:
        writer.write(rows)


@pytest.fixture
def quarantine(tmp_path):
    folder = tmp_path / "quarantine"
    rows = [
        RejectedRow("t.csv", 8, 9, "a", "'x7' is not an integer", b"x7,1.5"),
        RejectedRow("t.csv", 51, 52, None, "2 fields, expected 3", b"1,2"),
    ]
    write_rejected(folder / "rejected-00000.jsonl", rows)
    more = [
        RejectedRow("u.parquet", row, 0, "a", f"'x{row}' is not an integer", b"\xff" + b"y" * 90)
        for row in range(10, 40)
    ]
    write_rejected(folder / "rejected-00003.jsonl", more)
    return folder


def test_rows_set_aside_are_counted_by_reason_and_the_first_are_shown(quarantine):
    result = run(quarantine)
    assert result.exit_code == 0, result.exception
    lines = result.stdout.replace(str(quarantine), "Q").splitlines()
    assert lines[:10] == [
        "Q: 32 rejected rows that an ingest quarantined, JSON Lines in 2 files",
        "  rows  reason",
        "  31    column 'a': ... is not an integer",
        "  1     2 fields, expected 3",
        "",
        "the first 20; --all shows every one",
        "  file       line  row  column  reason                   row as it stood",
        "  t.csv      9     8    a       'x7' is not an integer   'x7,1.5'",
        "  t.csv      52    51           2 fields, expected 3     '1,2'",
        "  u.parquet        10   a       'x10' is not an integer  "
        "/3l5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5e...",
    ]
    assert lines[-1] == "whole rows: Q/rejected-00000.jsonl and so on"
    assert len(lines) == 7 + 20 + 2


def test_one_file_every_row_and_json(quarantine):
    assert "all of them" in run(quarantine / "rejected-00003.jsonl", "--all").stdout
    found = json.loads(run(quarantine / "*.jsonl", "--json").stdout)
    assert found["total"] == 32
    assert found["reasons"] == {
        "column 'a': ... is not an integer": 31,
        "2 fields, expected 3": 1,
    }
    assert found["rows"][1] == {
        "file": "t.csv", "line": 52, "row": 51, "column": None,
        "reason": "2 fields, expected 3", "raw": "1,2",
    }  # fmt: skip


def test_a_line_that_is_no_rejected_row_is_named(quarantine):
    (quarantine / "rejected-00004.jsonl").write_text('{"file": "t.csv"}\n')
    result = run(quarantine)
    assert isinstance(result.exception, DataError)
    assert str(result.exception) == f"{quarantine}/rejected-00004.jsonl: line 1 is no rejected row"


def test_an_empty_folder_is_none_of_rejected_rows(tmp_path):
    assert str(run(tmp_path).exception) == f"{tmp_path}: no TFRecord file in there"
