import pytest

from penstock.components.errors import UsageError
from penstock.pipelines.starter.sample import write_sample


def test_sample_has_each_kind_of_file(tmp_path):
    written = write_sample(tmp_path / "try")
    names = "customers.csv notes.txt photos trips trips.avro trips.csv trips.db trips.jsonl"
    assert [path.name for path in written] == [*names.split(), "trips.parquet"]
    lines = (tmp_path / "try/customers.csv").read_text().splitlines()
    assert (len(lines), lines[0]) == (1501, "months,plan,spent,churned")
    assert len(list((tmp_path / "try/photos/cat").iterdir())) == 6
    assert (tmp_path / "try/trips/trips.csv").read_bytes().count(b"\n") == 15_003


def test_folder_that_holds_something_is_refused(tmp_path):
    (tmp_path / "mine.txt").touch()
    with pytest.raises(UsageError, match="expected a new or an empty folder"):
        write_sample(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]
