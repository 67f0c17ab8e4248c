"""Scans by several local processes and by an engine give the same results as in this process."""

import os

import pytest
from local_beam import local_pipeline

from penstock.components.errors import DataError
from penstock.components.example_gen.ingest import plan_input, write_inputs
from penstock.components.example_gen.options import IngestOptions, SplitOptions
from penstock.components.sources import spread, whole_files
from penstock.components.sources.open import open_source
from penstock.components.sources.spread import Spread
from penstock.components.sources.text import source as text_scan
from penstock.components.tfrecord.sharding import ShardOptions
from tests.components.sources.test_contract import KINDS


@pytest.fixture(autouse=True)
def spread_all(monkeypatch):
    monkeypatch.setattr(spread, "_WORTH_PROCESSES_BYTES", 0)
    monkeypatch.setattr(spread, "_WORTH_ENGINE_BYTES", 0)


def manifest(source, out):
    options = IngestOptions(shards=ShardOptions(shards=3), on_bad_row="quarantine")
    return write_inputs([plan_input(source, SplitOptions(), options)], out, options)


def csv(folder):
    """Writes three files with a few bad rows."""
    for at in range(3):
        rows = (f'{i},"text, {i}\n{i}",{i / 4 if i % 197 else "x"}\n' for i in range(at, 900, 3))
        (folder / f"{at}.csv").write_text("id,text,number\n" + "".join(rows))


def write_files(folder, kind, suffix=""):
    for at in range(3):
        KINDS[kind][0](folder / f"{at}{suffix}", at)


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind", ["csv", "parquet", "jsonl", "avro", "text", "document", "binary", "images"]
)
@pytest.mark.parametrize("range_cells", [1, 2])
def test_scan_on_an_engine_gives_the_same_manifest(tmp_path, monkeypatch, kind, range_cells):
    (tmp_path / "in").mkdir()
    options = KINDS[kind][1]
    if kind == "csv":
        csv(tmp_path / "in")
    else:
        write_files(tmp_path / "in", kind)
    monkeypatch.setattr(text_scan, "CELL_BYTES", 1000)
    here = open_source(str(tmp_path / "in"), options)
    monkeypatch.setattr(whole_files, "_FILES_A_TASK", range_cells)
    pipelines = []

    def pipeline():
        pipelines.append(local_pipeline(1))
        return pipelines[-1]

    with Spread(pipeline, tmp_path / "out" / "a") as spread:
        there = open_source(str(tmp_path / "in"), options, spread)
        assert len(pipelines) == 1
        assert bool(os.listdir(tmp_path / "out")) is (kind == "avro")  # the staged rows of avro
        found = manifest(there, tmp_path / "out" / "a")
    assert os.listdir(tmp_path / "out") == ["a"]
    assert found == manifest(here, tmp_path / "out" / "b")
    assert found.account.read == here.rows


def test_scan_by_two_processes_equals_scan_by_one(tmp_path, monkeypatch):
    csv(tmp_path)
    here = open_source(str(tmp_path / "*.csv"))
    there = open_source(str(tmp_path / "*.csv"), None, Spread(2, tmp_path / "out"))
    assert (there.fingerprint, there.columns) == (here.fingerprint, here.columns)
    assert there.cut(5) == here.cut(5)


def test_first_damaged_file_in_a_scan_by_two_processes_is_named(tmp_path):
    for at in range(5):
        (tmp_path / f"{at}.parquet").write_bytes(b"PAR1" + bytes(20))
    with pytest.raises(DataError, match=rf"^{tmp_path}/0\.parquet: damaged"):
        open_source(str(tmp_path / "*.parquet"), None, Spread(2, tmp_path / "out"))
