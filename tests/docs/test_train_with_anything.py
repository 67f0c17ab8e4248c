"""Runs each section of docs/train_with_anything.md, with the real library."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from pages import ROOT, blocks
from row_files import example, write_shards

from penstock.components.example_gen.ingest import ingest
from penstock.components.example_gen.options import IngestInput, IngestOptions, Split, SplitOptions
from penstock.components.packing.options import ImageColumn, PackOptions
from penstock.components.packing.pack import pack
from penstock.components.tfrecord.sharding import ShardOptions

PAGE = ROOT / "docs/train_with_anything.md"
PARTS = blocks("python", "docs/train_with_anything.md")
LIBRARIES = ("polars", "duckdb", "datasets", "sklearn", "jax", "torch", "keras")
INSTALL = re.search(r"^pip install (--no-deps) penstock-tfx (.*)$", PAGE.read_text(), re.MULTILINE)
# These libraries are not installed in the environment of the tests, whose pyarrow and NumPy are too
# old for them.
INSTALLED_APART = ("jax", "datasets")
# This check is added to the code of each section except Keras's, because no other section may
# import TensorFlow, TFX or Beam.
WITHOUT = (
    "\nimport sys\n"
    "assert not {'tensorflow', 'tfx', 'apache_beam'} & {name.split('.')[0] for name in sys.modules}"
)

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("anything")
    lines = (f"{i % 10 / 10},town {i % 3},{int(i % 10 > 4)}\n" for i in range(300))
    (folder / "rows.csv").write_text("x,town,y\n" + "".join(lines))
    job = IngestInput(str(folder / "rows.csv"), splits=SplitOptions((Split("train"),)))
    three = ShardOptions(shards=3)
    ingest([job], folder / "rows", IngestOptions(shards=three))
    pack(str(folder / "rows"), folder / "packed", PackOptions(block_rows=50, shards=three))
    return folder


def test_the_page_has_a_part_for_each_library():
    assert len(PARTS) == len(LIBRARIES)
    for name, part in zip(LIBRARIES, PARTS, strict=True):
        assert re.search(rf"(import|from) {name}\b", part)


def environment(name, *packages):
    """Makes a virtual environment below build/, once; returns its Python."""
    place = ROOT / f"build/{name}-{sys.version_info.major}.{sys.version_info.minor}"
    if not (place / "complete").exists():
        shutil.rmtree(place, ignore_errors=True)
        subprocess.run([sys.executable, "-m", "venv", place], check=True)
        subprocess.run([place / "bin/pip", "install", "--quiet", *packages], check=True)
        (place / "complete").touch()
    return place / "bin/python"


def run(python, code, folder):
    done = subprocess.run(
        [python, "-c", code],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("name", [name for name in LIBRARIES if name != "torch"])
def test_a_part_runs(folder, name):
    python = sys.executable
    if name in INSTALLED_APART:
        python = environment("anything", *INSTALL[2].split(), *INSTALLED_APART)
    run(python, PARTS[LIBRARIES.index(name)] + ("" if name == "keras" else WITHOUT), folder)


def test_the_part_of_pytorch_runs(folder):
    """Runs with Debian's PyTorch, because PyTorch in the package index comes with 2 GB of CUDA."""
    debian = Path("/usr/lib/python3/dist-packages")
    if sys.version_info < (3, 13) or not (debian / "torch").exists():
        pytest.skip("has no PyTorch")
    path = f"import sys; sys.path.append({str(debian)!r})\n"
    run(sys.executable, path + PARTS[LIBRARIES.index("torch")] + WITHOUT, folder)


def test_the_readers_alone_read_packed_and_row_shards(folder):
    """Runs in an environment that has only the packages that the page names."""
    code = """
import sys
from penstock import Rows
for name in ("packed", "rows"):
    rows = Rows(name)
    found = sorted((row["x"], row["town"], row["y"]) for row in rows)
    batches = [b.to_pydict() for b in rows.batches(shuffle=True, batch_size=70, seed=1, epochs=1)]
    picked = sorted(row for b in batches for row in zip(b["x"], b["town"], b["y"]))
    assert picked == found, name
    print(len(rows), batches[-1]["town"][:1])
"""
    python = environment("readers", INSTALL[1], *INSTALL[2].split())
    counts = [line.split()[0] for line in run(python, code + WITHOUT, folder).splitlines()]
    assert counts == ["300", "300"]


def test_columns_of_any_storage_open_without_penstock(tmp_path):
    import duckdb
    import pandas
    import polars
    import pyarrow.dataset

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
