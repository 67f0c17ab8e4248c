import importlib.util
import json
from pathlib import Path

import pytest

from penstock.components.errors import DataError
from tests.pipelines.cli.conftest import call

TFX = Path(importlib.util.find_spec("tfx").submodule_search_locations[0])
TAXI = TFX / "components/testdata/external/tfrecord"


@pytest.fixture
def damaged(tmp_path):
    """A folder of two taxi shards: one is cut, and one is replaced by a CSV file."""
    for file in TAXI.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes()[:-10])
    (tmp_path / "data_tfrecord-00001-of-00002.gz").write_bytes(b"trip_miles,fare\n1,2\n")
    return tmp_path


def test_sound_shards():
    result = call("verify", TAXI)
    assert result.exit_code == 0
    assert result.stdout.splitlines() == [
        f"{TAXI}: no manifest",
        "  file                             size       compression  records  result",
        "  data_tfrecord-00000-of-00002.gz  402.5 KiB  GZIP         9,988    ok",
        "  data_tfrecord-00001-of-00002.gz  203.8 KiB  GZIP         5,012    ok",
        "note: no manifest.json: an uncompressed file cut exactly between two records, or a file "
        "removed whole, cannot be seen; if Penstock wrote this, it was never finished",
        "2 files, 606.3 KiB, 15,000 records: no faults",
    ]


def test_faults_have_a_line_each_in_the_error(damaged):
    result = call("verify", damaged)
    assert isinstance(result.exception, DataError)
    assert result.exception.exit_code == 1
    cut, other = str(result.exception).splitlines()
    assert cut.startswith(f"{damaged}/data_tfrecord-00000-of-00002.gz: GZIP data is cut: ")
    assert other.startswith(
        f"{damaged}/data_tfrecord-00001-of-00002.gz: not a TFRecord file, it looks like text; "
    )
    assert result.stdout.splitlines()[-1].endswith(" records: 2 faults")
    assert "1 fault\n" in result.stdout


def test_json_has_the_faults_and_the_error_comes_too(damaged):
    result = call("verify", damaged, "--json")
    assert isinstance(result.exception, DataError)
    assert json.loads(result.stdout)["faults"] == str(result.exception).splitlines()
