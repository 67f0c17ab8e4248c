"""Runs each part of docs/train_with_anything.md, with the real library."""

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import duckdb
import pandas
import polars
import pyarrow.dataset
import pytest
from row_files import example, write_shards

from penstock.components.packing.options import ImageColumn, PackOptions
from penstock.components.packing.pack import pack
from penstock.components.tfrecord.sharding import ShardOptions

PAGE = Path(__file__).parents[2] / "docs/train_with_anything.md"
PARTS = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
LIBRARIES = ("polars", "duckdb", "datasets", "sklearn", "jax", "torch", "keras")
# At the end of each part but that of TensorFlow.
WITHOUT = (
    "\nimport sys\n"
    "assert not {'tensorflow', 'tfx', 'apache_beam'} & {name.split('.')[0] for name in sys.modules}"
)

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("anything")
    rows = [
        example(x=[i % 10 / 10], town=[b"town %d" % (i % 3)], y=[int(i % 10 > 4)])
        for i in range(300)
    ]
    write_shards(folder / "rows", rows)
    options = PackOptions(block_rows=50, shards=ShardOptions(shards=3))
    pack(str(folder / "rows"), folder / "packed", options)
    return folder


def test_the_page_has_a_part_for_each_library():
    assert len(PARTS) == len(LIBRARIES)
    for name, part in zip(LIBRARIES, PARTS, strict=True):
        assert re.search(rf"(import|from) {name}\b", part)


@pytest.mark.parametrize("name", LIBRARIES)
def test_a_part_runs(folder, name):
    if importlib.util.find_spec(name) is None:
        pytest.skip(f"has no {name}")
    code = PARTS[LIBRARIES.index(name)] + ("" if name == "keras" else WITHOUT)
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stderr


def test_columns_of_any_storage_open_without_penstock(tmp_path):
    rows = [
        example(
            id=[i],
            n=list(range(i % 4)) or None,
            pair=[i / 2, i / 3],
            two=[b"a%d" % i, b"b"],
            raw=[bytes([200, i % 256]) + b"%d" % i],
            kind=[b"k%d" % (i % 3)],
            pixels=[bytes(range(48))],
        )
        for i in range(300)
    ]
    write_shards(tmp_path / "rows", rows)
    options = PackOptions(block_rows=50, images=(ImageColumn("pixels", (4, 4)),))
    manifest = pack(str(tmp_path / "rows"), tmp_path / "packed", options)
    assert {column["name"]: column["storage"] for column in manifest.packed["columns"]} == {
        "id": "int64",
        "kind": "words",
        "n": "list",
        "pair": "float32",
        "pixels": "uint8",
        "raw": "text",
        "two": "text",
    }
    [file] = (tmp_path / "packed/Split-train").iterdir()
    frames = polars.read_ipc(file), pandas.read_feather(file)
    assert [sorted(frame["id"].to_list()) for frame in frames] == [list(range(300))] * 2
    assert [frame["pixels"].to_list()[0] for frame in frames] == [bytes(range(48))] * 2
    train = pyarrow.dataset.dataset(file.parent, format="ipc")
    found = duckdb.from_arrow(train).query(
        "train", "select count(*), count(distinct kind), count(distinct raw) from train"
    )
    assert found.fetchall() == [(300, 3, 300)]
