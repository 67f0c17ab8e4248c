"""Runs each part of docs/train_with_anything.md, with the real library."""

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest
from row_files import example, write_shards

from penstock.components.packing.options import PackOptions
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
