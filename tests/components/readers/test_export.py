import json
import sys

import pyarrow.parquet as pq
import pytest
import tensorflow as tf
from array_record.python.array_record_module import ArrayRecordReader

import penstock
from penstock.components.errors import UsageError
from penstock.components.readers.export import export

ROWS = [
    {"id": i, "x": i / 2 if i % 3 else None, "name": f"näme {i % 4}", "raw": f"{i}"}
    for i in range(300)
]


@pytest.fixture(scope="module")
def shards(tmp_path_factory):
    folder = tmp_path_factory.mktemp("export")
    text = "".join(json.dumps(row) + "\n" for row in ROWS)
    (folder / "t.jsonl").write_text(text, encoding="utf-8")
    one = penstock.sources.IngestOptions(shards=penstock.sources.ShardOptions(shards=1))
    penstock.ingest(str(folder / "t.jsonl"), folder / "shards", options=one)
    return folder / "shards"


@pytest.fixture(params=["rows", "packed"])
def either(request, shards, tmp_path):
    if request.param == "rows":
        return shards, ROWS
    options = penstock.nodes.PackOptions(
        block_rows=64, shards=penstock.sources.ShardOptions(shards=1)
    )
    penstock.pack(str(shards), tmp_path / "packed", options)
    return tmp_path / "packed", [{**row, "x": row["x"] or 0.0} for row in ROWS]


def by_id(rows):
    return sorted(rows, key=lambda row: row["id"])


def test_parquet(either, tmp_path):
    folder, rows = either
    told = []
    written = export(folder, tmp_path / "o", to="parquet", on_rows=lambda *t: told.append(t))
    assert sum(written.values()) == 300
    assert told[-1] == (300, 300)
    files = sorted((tmp_path / "o").iterdir())
    assert {file.name.partition("-")[0] for file in files} == {"train", "eval"}
    assert by_id(row for file in files for row in pq.read_table(file).to_pylist()) == rows


def test_array_record_has_examples(either, tmp_path):
    folder, rows = either
    written = export(folder, tmp_path / "o", to="arrayrecord", splits=["train"])
    [file] = (tmp_path / "o").iterdir()
    reader = ArrayRecordReader(str(file))
    assert reader.num_records() == written["train"]
    example = tf.train.Example.FromString(reader.read([7])[0]).features.feature
    [number] = example["id"].int64_list.value
    assert example["name"].bytes_list.value[:] == [rows[number]["name"].encode()]
    reader.close()


def test_without_its_library_arrayrecord_is_refused(shards, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "array_record.python.array_record_module", None)
    with pytest.raises(
        UsageError, match=r"not installed \(.*\): pip install 'penstock-tfx\[bench\]'"
    ):
        export(shards, tmp_path / "o", to="arrayrecord")


def test_what_cannot_be(shards, tmp_path):
    with pytest.raises(UsageError, match=r"no format 'csv'; choices: parquet, arrayrecord$"):
        export(shards, tmp_path / "o", to="csv")
    with pytest.raises(UsageError, match="no split 'test'; it has train, eval"):
        export(shards, tmp_path / "o", to="parquet", splits=["test"])
    (tmp_path / "taken").touch()
    with pytest.raises(UsageError, match=r"exists already; name another output$"):
        export(shards, tmp_path / "taken", to="parquet")
    assert not (tmp_path / "o").exists()
