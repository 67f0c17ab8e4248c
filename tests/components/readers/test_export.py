import json
import shutil
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyarrow.parquet as pq
import pytest
import tensorflow as tf
import webdataset as wds
from array_record.python.array_record_module import ArrayRecordReader
from PIL import Image

import penstock
from penstock.components.errors import DataError, UsageError
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
    one = penstock.nodes.IngestOptions(shards=penstock.nodes.ShardOptions(shards=1))
    penstock.ingest(str(folder / "t.jsonl"), folder / "shards", options=one)
    return folder / "shards"


@pytest.fixture(params=["rows", "packed"])
def either(request, shards, tmp_path):
    if request.param == "rows":
        return shards, ROWS
    options = penstock.nodes.PackOptions(
        block_rows=64, shards=penstock.nodes.ShardOptions(shards=1)
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


def test_webdataset(either, tmp_path):
    folder, rows = either
    export(folder, tmp_path / "o", to="webdataset")
    files = [str(file) for file in sorted((tmp_path / "o").iterdir())]
    samples = list(wds.WebDataset(files, shardshuffle=False).decode())
    assert by_id(sample["json"] for sample in samples) == rows
    assert len({sample["__key__"] for sample in samples}) == 300


def test_webdataset_of_images(tmp_path):
    for name in ("cat", "dog"):
        (tmp_path / "images" / name).mkdir(parents=True)
        Image.new("RGB", (5, 4), (name == "cat" and "red") or "blue").save(
            tmp_path / "images" / name / "1.png"
        )
    penstock.ingest(
        str(tmp_path / "images"),
        tmp_path / "shards",
        source=penstock.sources.Images(),
        splits=penstock.nodes.SplitOptions((penstock.nodes.Split("train", 1),)),
    )
    export(tmp_path / "shards", tmp_path / "o", to="webdataset")
    files = [str(file) for file in (tmp_path / "o").iterdir()]
    samples = list(wds.WebDataset(files, shardshuffle=False).decode("pil"))
    assert sorted((s["cls"], s["json"]["image/class/text"], s["png"].size) for s in samples) == [
        (0, "cat", (5, 4)),
        (1, "dog", (5, 4)),
    ]


class MDSWriter:
    """Stands for that of mosaicml-streaming, which needs PyTorch: too large to install for tests.

    What it is given was read back by the real one, 0.7.6, by hand.
    """

    given = {}  # noqa: RUF012

    def __init__(self, *, out, columns, hashes):
        self.columns, self.rows = columns, []
        self.given[Path(out).name] = self
        Path(out).mkdir()

    def write(self, row):
        self.rows.append(row)

    def finish(self):
        self.rows.append("finished")


def test_mds_has_a_folder_a_split_and_values_of_its_own_types(shards, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "streaming", SimpleNamespace(MDSWriter=MDSWriter))
    (tmp_path / "t.csv").write_text(
        "id,x,name\n" + "".join(f"{i},{i / 2},n{i}\n" for i in range(90))
    )
    penstock.ingest(str(tmp_path / "t.csv"), tmp_path / "s")
    written = export(tmp_path / "s", tmp_path / "o", to="mds")
    assert set(MDSWriter.given) == set(written) == {"train", "eval"}
    assert MDSWriter.given["train"].columns == {"id": "int64", "x": "float32", "name": "str"}
    *rows, end = MDSWriter.given["train"].rows
    assert (len(rows), end) == (written["train"], "finished")
    assert rows[0] == {"id": rows[0]["id"], "x": rows[0]["id"] / 2, "name": f"n{rows[0]['id']}"}
    assert type(rows[0]["x"]) is np.float32
    with pytest.raises(DataError, match="column 'x' has rows without a value, which MDS cannot"):
        export(shards, tmp_path / "p", to="mds")


def test_without_its_library_mds_is_refused(shards, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "streaming", None)
    with pytest.raises(UsageError, match=r"not installed \(streaming\): pip install mosaicml-str"):
        export(shards, tmp_path / "o", to="mds")


def test_the_same_bytes_each_time(shards, tmp_path):
    for to in ("parquet", "webdataset"):
        for name in ("a", "b"):
            export(shards, tmp_path / f"{to}-{name}", to=to, splits=["eval"])
        [a], [b] = ((tmp_path / f"{to}-{name}").iterdir() for name in ("a", "b"))
        assert a.read_bytes() == b.read_bytes()


def test_what_cannot_be(shards, tmp_path):
    with pytest.raises(
        UsageError, match="no format 'csv'; choices: parquet, arrayrecord, webdataset, mds"
    ):
        export(shards, tmp_path / "o", to="csv")
    with pytest.raises(UsageError, match="no split 'test'; it has train, eval"):
        export(shards, tmp_path / "o", to="parquet", splits=["test"])
    (tmp_path / "taken").touch()
    with pytest.raises(UsageError, match=r"exists already; name another output$"):
        export(shards, tmp_path / "taken", to="parquet")
    assert not (tmp_path / "o").exists()


def test_a_damaged_shard_stops_it_and_leaves_nothing(shards, tmp_path):
    shutil.copytree(shards, tmp_path / "s")
    shard = next((tmp_path / "s" / "Split-train").iterdir())
    shard.write_bytes(shard.read_bytes()[:-1])
    with pytest.raises(DataError, match=shard.name):
        export(tmp_path / "s", tmp_path / "o", to="parquet")
    assert not (tmp_path / "o").exists()
