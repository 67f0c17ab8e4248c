import json

import pytest
from row_files import example, write_shards

from penstock.components.doctor.inspect import inspect
from penstock.components.doctor.verify import verify
from penstock.pipelines.cli.shard_tables import show_inspection
from tests.pipelines.cli.conftest import call


@pytest.fixture
def rows(tmp_path):
    records = [example(id=[0]), *(example(id=[i], s=[b"w"]) for i in range(1, 10))]
    return write_shards(tmp_path / "rows", records, shards=1)


def test_what_is_said_when_it_is_done(rows, tmp_path):
    result = call("pack", rows, tmp_path / "packed", "--id", "s", "--block-rows", 4, "--shards", 2)
    assert result.exit_code == 0, result.output
    lines = [line.rstrip() for line in result.stdout.splitlines()]
    assert lines[0] == f"{tmp_path}/packed: blocks of 4 rows"
    assert lines[2].split()[:3] == ["train", "10", "2"]
    assert [line.split() for line in lines[4:7]] == [
        ["column", "kind", "stored", "as", "shape", "Arrow", "type", "filled"],
        ["id", "INT", "int64", "1", "int64"],
        ["s", "BYTES", "int32", "1", "int32", "1"],
    ]
    assert lines[7] == (
        "1 column had rows without a value, which have 0, 0.0 or the empty text now; "
        "--on-missing list keeps the difference"
    )
    assert lines[8].startswith("10 rows read = 10 written, in ")
    assert lines[9] == f"check: penstock verify {tmp_path}/packed"
    assert (tmp_path / "packed/vocabulary/s.txt").read_text() == "w\n\n"


def test_inspect_and_verify_know_rows_and_blocks(rows, tmp_path, capsys):
    packed = tmp_path / "packed"
    assert call("pack", rows, packed, "--block-rows", 4, "--shards", 1).exit_code == 0
    report = inspect(str(packed))
    show_inspection(report)
    lines = capsys.readouterr().out.splitlines()
    assert "packed in blocks of 4 rows, shuffled by seed 0" in lines
    columns = [line.split()[:5] for line in lines]
    assert ["s", "BYTES", "words", "1", "dictionary<values=string,"] in columns
    assert not [line for line in lines if "in 3 packed blocks" in line]
    show_inspection(inspect(str(packed / "Split-train")))
    assert "10 rows in 3 packed blocks" in capsys.readouterr().out.splitlines()
    raw = json.loads(report.to_json())["manifests"][str(packed)]
    assert raw["packed"]["block_rows"] == 4

    found = verify(str(packed))
    assert (found.records, found.rows) == (3, 10)
    (packed / "manifest.json").unlink()
    told = call("verify", packed).stdout.splitlines()
    assert told[-1].endswith(", 3 records of 10 rows: no faults")


def test_columns_without_any_value_are_named(tmp_path):
    rows = write_shards(tmp_path / "rows", [example(id=[1], empty=None, also=None)], shards=1)
    result = call("pack", rows, tmp_path / "packed")
    assert (
        "left out, as no row has a value: also, empty; a --schema that has a column keeps it\n"
    ) in result.stdout
    manifest = json.loads((tmp_path / "packed/manifest.json").read_text())
    assert manifest["packed"]["empty_columns"] == ["also", "empty"]
    result = call("pack", tmp_path / "rows", tmp_path / "other", "--column", "nope")
    assert str(result.exception) == "no column 'nope' with a value; there are id"


def test_json_is_the_manifest(rows, tmp_path):
    result = call("pack", rows, tmp_path / "packed", "--column", "id", "--seed", 5, "--json")
    manifest = json.loads(result.stdout)
    assert manifest == json.loads((tmp_path / "packed/manifest.json").read_text())
    assert manifest["packed"]["seed"] == 5
    assert [column["name"] for column in manifest["columns"]] == ["id"]


def test_engines_are_chosen_as_of_an_ingest(rows, tmp_path):
    result = call("pack", rows, tmp_path / "packed", "--runner", "flink", "--parallelism", "2")
    assert str(result.exception) == "runner 'flink' needs --flink-master, HOST:PORT"
    portable = ["--runner", "portable", "--job-endpoint", "localhost:1", "--parallelism", "2"]
    result = call("pack", rows, tmp_path / "packed", *portable)
    assert str(result.exception).startswith("portable: nothing answers at localhost:1 (")
    assert not (tmp_path / "packed").exists()
