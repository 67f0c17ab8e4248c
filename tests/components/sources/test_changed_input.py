"""Inputs that change between the look at them and the end of the reading, size and mtime kept."""

import os

import pyarrow as pa
import pyarrow.orc
import pyarrow.parquet as pq
import pytest
from PIL import Image

from penstock.components.errors import DataError
from penstock.components.sources.arrow import Arrow
from penstock.components.sources.binary import Binary
from penstock.components.sources.images.options import Images
from penstock.components.sources.jsonl import JsonLines
from penstock.components.sources.open import open_source
from penstock.components.sources.options import Table
from penstock.components.sources.orc import Orc
from penstock.components.sources.plain_text import Text
from penstock.components.sources.tfrecords.source import TFRecord
from penstock.components.tfrecord.encoder import encode_examples
from penstock.components.tfrecord.writer import frame_records

pytestmark = pytest.mark.slow


def csv(path, first):
    path.write_text(f"id,name\n{first},a\n" + "2,b\n" * 5000)


def jsonl(path, first):
    path.write_text(f'{{"id": {first}}}\n' + '{"id": 2}\n' * 5000)


def parquet(path, first):
    table = pa.table({"id": [first, *range(5000)]})
    pq.write_table(table, path, compression="none", use_dictionary=False)


def arrow(path, first):
    table = pa.table({"id": [first, *range(5000)]})
    with pa.ipc.new_file(str(path), table.schema) as out:
        out.write_table(table, max_chunksize=1000)


def orc(path, first):
    pyarrow.orc.write_table(pa.table({"id": [first, *range(5000)]}), str(path))


def tfrecord(path, first):
    ids = pa.RecordBatch.from_arrays([pa.array([first, *range(20_000)])], names=["id"])
    path.write_bytes(b"".join(frame_records(encode_examples(ids)).to_pylist()))


def image(path, first):
    Image.new("RGB", (8, 8), (first, 0, 0)).save(path, "BMP")


CASES = {
    "csv": (csv, Table(kind="csv")),
    "jsonl": (jsonl, JsonLines()),
    "text": (csv, Text()),
    "document": (csv, Text(unit="document")),
    "binary": (csv, Binary()),
    "parquet": (parquet, Table(kind="parquet")),
    "arrow": (arrow, Arrow()),
    "orc": (orc, Orc()),
    "tfrecord": (tfrecord, TFRecord()),
    "images": (image, Images(unlabelled="keep")),
}


def edit(path, write, first):
    before = path.stat()
    write(path, first)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert path.stat().st_size == before.st_size
    assert path.stat().st_mtime_ns == before.st_mtime_ns


def read(source):
    return sum(batch.rows_read for run in source.cut(2) for batch in source.read(run))


@pytest.mark.parametrize("kind", CASES)
def test_an_edit_that_keeps_size_and_time_ends_the_reading(tmp_path, kind):
    write, options = CASES[kind]
    path = tmp_path / "data"
    write(path, 1)
    source = open_source(str(path), options)
    edit(path, write, 7)
    with pytest.raises(DataError, match=r"/data: its content was changed since it was opened"):
        read(source)


@pytest.mark.parametrize("kind", CASES)
def test_an_edit_in_the_midst_of_the_reading_is_seen(tmp_path, kind):
    write, options = CASES[kind]
    path = tmp_path / "data"
    write(path, 1)
    source = open_source(str(path), options)
    [run] = source.cut(1)
    batches = source.read(run)
    next(batches)
    if kind in ("document", "binary", "images"):  # read whole
        return
    edit(path, write, 7)
    with pytest.raises(DataError, match=r"/data: its content was changed since it was opened"):
        list(batches)


@pytest.mark.parametrize("kind", CASES)
def test_a_change_that_is_none_of_the_content_is_no_matter(tmp_path, kind):
    write, options = CASES[kind]
    path = tmp_path / "data"
    write(path, 1)
    source = open_source(str(path), options)
    path.chmod(0o600)
    other = tmp_path / "other"
    other.write_bytes(path.read_bytes())
    other.rename(path)
    assert read(source) == source.rows


def test_an_edit_between_a_csvs_header_and_its_rows_is_seen(tmp_path, monkeypatch):
    from penstock.components.sources.csv import source as csv_source

    path = tmp_path / "data"
    csv(path, 1)
    scan = csv_source.scan_files

    def edited(*given):
        edit(path, csv, 7)
        return scan(*given)

    monkeypatch.setattr(csv_source, "scan_files", edited)
    with pytest.raises(DataError, match="/data: was changed while it was read; start again"):
        open_source(str(path), Table(kind="csv"))
