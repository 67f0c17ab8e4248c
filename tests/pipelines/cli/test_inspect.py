import importlib.util
import json
from pathlib import Path

import pytest
import tensorflow as tf
from row_files import example

from penstock.components.errors import DataError
from tests.pipelines.cli.conftest import call

TFX = Path(importlib.util.find_spec("tfx").submodule_search_locations[0])
TAXI = TFX / "components/testdata/external/tfrecord"


@pytest.fixture
def shard(tmp_path):
    path = tmp_path / "shard"
    with tf.io.TFRecordWriter(str(path)) as file:
        for _ in range(2):
            file.write(example(fare=[12.5], tag=[b"[red]"]))
    return path


def test_prints_files_and_features(shard):
    result = call("inspect", shard)
    assert result.exit_code == 0
    assert result.stdout.replace(str(shard), "SHARD").splitlines() == [
        "SHARD: 1 file, 108 B, 2 records (counted)",
        "  file" + " " * (len(str(shard)) - 4) + "  size   compression  records",
        "  SHARD  108 B  none         2",
        "",
        "features, over all 2 records (2 Example)",
        "  feature  kind   values  present  range         mean  distinct  samples",
        "  fare     float  1       100.0%   12.5 to 12.5  12.5            12.5",
        "  tag      bytes  1       100.0%   5 bytes             1         '[red]'",
    ]


def test_taxi_data_on_a_narrow_terminal_keeps_one_line_a_feature():
    lines = call("inspect", TAXI).stdout.splitlines()
    assert lines[0] == f"{TAXI}: 2 files, 606.3 KiB, 15,000 records (counted)"
    (company,) = [line for line in lines if line.startswith("  company ")]
    assert "'Taxi Affiliation Services'; 'Dispatch Taxi Affiliation'" in company
    assert "features, over the first of each file: 1,000 records (1,000 Example)" in lines


def test_samples_and_records_are_options(shard):
    raw = json.loads(call("inspect", shard, "--json", "--samples", "0", "--records", "1").stdout)
    assert raw["payloads"] == {"Example": 1}
    assert raw["features"][0]["samples"] == []
    assert json.loads(call("inspect", shard, "--json", "--all").stdout)["payloads"] == {
        "Example": 2
    }


def test_a_damaged_file_is_shown_and_then_an_error(shard):
    data = bytearray(shard.read_bytes())
    data[-1] ^= 1
    shard.write_bytes(data)
    result = call("inspect", shard)
    assert isinstance(result.exception, DataError)
    assert str(result.exception) == (
        f"{shard}: record 1 at offset 54: payload of 38 bytes has CRC 0x6b6c4f85, expected "
        "0x6a6c4f85; the record is damaged"
    )
    assert "2 records (in files with faults)" in result.stdout


def test_a_terminal_gets_a_table(shard, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "160")
    output = call("inspect", shard).stdout
    assert "│" in output
    assert "[red]" in output  # data, not markup
