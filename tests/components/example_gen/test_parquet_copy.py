import pyarrow.parquet as pq
import pytest

from penstock.components.example_gen.ingest import ingest
from penstock.components.example_gen.options import IngestInput, IngestOptions, SplitOptions
from penstock.components.tfrecord.manifest import read_manifest
from penstock.components.tfrecord.sharding import ShardOptions


@pytest.fixture
def output(tmp_path):
    csv = tmp_path / "trips.csv"
    csv.write_text("id,name,fare\n" + "".join(f"{i},row é {i},{i / 2}\n" for i in range(100)))
    options = IngestOptions(shards=ShardOptions(shards=3), parquet_copy=True)
    job = IngestInput(str(csv), splits=SplitOptions())
    ingest([job], tmp_path / "out", options)
    return tmp_path / "out"


def test_the_copy_has_the_same_rows_in_the_same_splits(output):
    manifest = read_manifest(output)
    assert manifest.parquet == "parquet"
    found = {}
    for split, rows in manifest.account.written.items():
        table = pq.read_table(output / "parquet" / split)
        assert table.num_rows == rows
        assert [str(field.type) for field in table.schema] == ["int64", "string", "float"]
        found |= {row["id"]: row for row in table.to_pylist()}
    assert len(found) == 100
    assert found[7] == {"id": 7, "name": "row é 7", "fare": 3.5}
    names = sorted(path.name for path in (output / "parquet" / "train").iterdir())
    assert names == [f"data-0000{i}-of-00003.parquet" for i in range(3)]


def test_nothing_of_it_lies_where_readers_of_shards_look(output):
    assert sorted(path.name for path in output.iterdir()) == [
        "Split-eval", "Split-train", "manifest.json", "parquet",
    ]  # fmt: skip
