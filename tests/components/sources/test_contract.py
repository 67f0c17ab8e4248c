"""Contract of the kinds in `KINDS`: a cut loses no row, changes are noticed, errors name a remedy.

The test file of each kind covers its types, options and faults.
"""

import gzip
import os
import pickle
import sqlite3

import fastavro
import pyarrow as pa
import pyarrow.orc
import pyarrow.parquet as pq
import pytest
from PIL import Image

from penstock.components.errors import DataError
from penstock.components.files import retry
from penstock.components.sources import staging
from penstock.components.sources.arrow import Arrow
from penstock.components.sources.avro import Avro
from penstock.components.sources.binary import Binary
from penstock.components.sources.csv import source as csv_source
from penstock.components.sources.images.options import Images
from penstock.components.sources.jsonl import JsonLines
from penstock.components.sources.open import open_source
from penstock.components.sources.options import Csv, Parquet, Table
from penstock.components.sources.orc import Orc
from penstock.components.sources.plain_text import Text
from penstock.components.sources.sql.options import Sql
from penstock.components.sources.text import source as text_scan
from penstock.components.sources.tfrecords.source import TFRecord
from penstock.components.tfrecord.encoder import encode_examples
from penstock.components.tfrecord.writer import frame_records

ROWS = 5001


def csv(path, first):
    path.write_text(f"id,name\n{first},a\n" + "2,b\n" * (ROWS - 1))


def quoted_csv(path, first):
    path.write_text(f'id,name\n{first},"a\n,"\n' + '2,"b ""c""\n"\n' * (ROWS - 1))


def gzipped_csv(path, first):
    text = f"id\n{first}\n".encode() + b"2\n" * (ROWS - 1)
    path.write_bytes(gzip.compress(text, compresslevel=0, mtime=0))


def jsonl(path, first):
    path.write_text(f'{{"id": {first}}}\n' + '{"id": 2}\n' * (ROWS - 1))


def parquet(path, first):
    table = pa.table({"id": [first, *range(ROWS - 1)]})
    pq.write_table(table, path, compression="none", use_dictionary=False, row_group_size=1000)


def avro(path, first):
    schema = {"type": "record", "name": "r", "fields": [{"name": "id", "type": "long"}]}
    with path.open("wb") as out:
        rows = [{"id": first}, *({"id": i} for i in range(ROWS - 1))]
        fastavro.writer(out, schema, rows, sync_marker=b"0123456789abcdef", sync_interval=1000)


def arrow(path, first):
    table = pa.table({"id": [first, *range(ROWS - 1)]})
    with pa.ipc.new_file(str(path), table.schema) as out:
        out.write_table(table, max_chunksize=1000)


def arrow_stream(path, first):
    table = pa.table({"id": [first, *range(ROWS - 1)]})
    with pa.ipc.new_stream(str(path), table.schema) as out:
        out.write_table(table, max_chunksize=1000)


def orc(path, first):
    table = pa.table({"id": [first, *range(ROWS - 1)]})
    pyarrow.orc.write_table(table, str(path), stripe_size=4096, batch_size=100)


def tfrecord(path, first):
    ids = pa.RecordBatch.from_arrays([pa.array([first, *range(4 * ROWS)])], names=["id"])
    path.write_bytes(b"".join(frame_records(encode_examples(ids)).to_pylist()))


def image(path, first):
    Image.new("RGB", (8, 8), (first, 0, 0)).save(path, "BMP")


def sqlite(path, first):
    path.unlink(missing_ok=True)
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE t (id INTEGER)")
        database.executemany("INSERT INTO t VALUES (?)", [(first,), *((i,) for i in range(ROWS))])
    database.close()


KINDS = {
    "csv": (csv, Csv()),
    "quoted csv": (quoted_csv, Csv()),
    "gzipped csv": (gzipped_csv, Csv()),
    "jsonl": (jsonl, JsonLines()),
    "text": (csv, Text()),
    "document": (csv, Text(unit="document")),
    "binary": (csv, Binary()),
    "parquet": (parquet, Parquet()),
    "avro": (avro, Avro()),
    "arrow": (arrow, Arrow()),
    "arrow stream": (arrow_stream, Arrow()),
    "orc": (orc, Orc()),
    "tfrecord": (tfrecord, TFRecord()),
    "images": (image, Images(unlabelled="keep")),
    "sql": (sqlite, Sql(table="t")),
}
REMEDIES = ("; ", "expected ", "o such ", "not a database", "malformed")
STAGED = ("avro", "sql")
WHOLE = ("document", "binary", "images")  # In these kinds, a file is a row.
READ_AGAIN = [kind for kind in KINDS if kind not in STAGED]


def opened(kind, path):
    return open_source(f"sqlite:///{path}" if kind == "sql" else str(path), KINDS[kind][1])


@pytest.fixture
def data(tmp_path, monkeypatch):
    """A function that writes a file of a kind and opens it for reading in small blocks."""
    monkeypatch.setattr(text_scan, "CELL_BYTES", 1000)
    monkeypatch.setattr(csv_source, "BLOCK_BYTES", 3000)
    monkeypatch.setattr(staging, "_GROUP_BYTES", 10_000)

    def write(kind):
        KINDS[kind][0](tmp_path / "data", 1)
        return tmp_path / "data", opened(kind, tmp_path / "data")

    return write


def edit(path, kind):
    before = path.stat()
    KINDS[kind][0](path, 7)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert path.stat().st_size == before.st_size
    assert path.stat().st_mtime_ns == before.st_mtime_ns


def read(source, parts=2):
    """Returns the rows, read in parts as workers do; None stands for each rejected row."""
    rows = []
    for run in source.cut(parts):
        part, pieces = pickle.loads(pickle.dumps(source.part(run)))
        for batch in part.read(pieces):
            rows += batch.table.to_pylist() + [None] * (batch.rows_read - batch.table.num_rows)
    return rows


@pytest.mark.parametrize("kind", KINDS)
def test_any_cut_gives_all_rows_in_order(data, kind):
    _, source = data(kind)
    whole = read(source, 1)
    assert len(whole) == source.rows
    assert None not in whole
    for parts in (3, 40):
        assert len(source.cut(parts)) == parts
        assert read(source, parts) == whole


@pytest.mark.parametrize("kind", KINDS)
def test_the_fingerprint_follows_content_and_names_below_the_input(tmp_path, kind):
    found = []
    for folder, name, first in (("a", "1", 1), ("b", "1", 1), ("c", "1", 7), ("d", "2", 1)):
        (tmp_path / folder).mkdir()
        KINDS[kind][0](tmp_path / folder / name, first)
        found.append(opened(kind, tmp_path / folder / name).fingerprint)
    assert found[0] == found[1]
    assert found[0] != found[2]
    assert len(found[0]) == 64
    assert (found[0] == found[3]) is (kind == "sql")  # A database's fingerprint has no file name.


@pytest.mark.parametrize("kind", READ_AGAIN)
def test_an_edit_that_keeps_size_and_time_ends_the_reading(data, kind):
    path, source = data(kind)
    edit(path, kind)
    with pytest.raises(DataError, match=r"/data: its content was changed since it was opened"):
        read(source)


@pytest.mark.parametrize("kind", [kind for kind in READ_AGAIN if kind not in WHOLE])
def test_an_edit_in_the_midst_of_the_reading_is_seen(data, kind):
    path, source = data(kind)
    [run] = source.cut(1)
    batches = source.read(run)
    next(batches)
    edit(path, kind)
    with pytest.raises(DataError, match=r"/data: its content was changed since it was opened"):
        list(batches)


@pytest.mark.parametrize("kind", READ_AGAIN)
def test_a_file_that_grew_or_went_away_is_named(data, kind):
    path, source = data(kind)
    with path.open("ab") as file:
        file.write(b"more")
    with pytest.raises(DataError, match=r"/data: has \d+ bytes and had \d+ when it was opened"):
        read(source)
    path.unlink()
    with pytest.raises(DataError, match=r"/data: cannot be opened \(No such file or directory\)"):
        read(source)


@pytest.mark.parametrize("kind", KINDS)
def test_a_change_that_is_none_of_the_content_is_no_matter(data, kind):
    path, source = data(kind)
    path.chmod(0o600)
    other = path.with_name("other")
    other.write_bytes(path.read_bytes())
    other.rename(path)
    assert len(read(source)) == source.rows


@pytest.mark.parametrize("kind", STAGED)
def test_staged_rows_stay_as_they_were_read(data, kind):
    path, source = data(kind)
    path.write_bytes(b"other")
    assert [row["id"] for row in read(source)[:3]] == [1, 0, 1]


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in WHOLE])
@pytest.mark.parametrize("damage", ["missing", "empty", "cut", "a picture"])
def test_a_file_that_cannot_be_read_is_refused_in_one_line_with_a_remedy(tmp_path, kind, damage):
    path = tmp_path / "data"
    KINDS[kind][0](path, 1)
    if damage == "missing":
        path.unlink()
    elif damage == "empty":
        path.write_bytes(b"")
    elif damage == "a picture":
        image(path, 1)
    elif kind in ("csv", "quoted csv", "text", "jsonl"):
        return  # A truncated file of these kinds still has rows.
    else:
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2 + 1])
    with pytest.raises(DataError) as caught:
        list(read(opened(kind, path)))
    message = str(caught.value)
    assert str(path) in message
    assert "\n" not in message
    assert any(word in message for word in REMEDIES)


def test_an_edit_between_a_csvs_header_and_its_rows_is_seen(tmp_path, monkeypatch):
    path = tmp_path / "data"
    csv(path, 1)
    read_headers = csv_source.map_files

    def edited(*given):
        headers = read_headers(*given)
        edit(path, "csv")
        return headers

    monkeypatch.setattr(csv_source, "map_files", edited)
    with pytest.raises(DataError, match="/data: was changed while it was read; start again"):
        open_source(str(path), Table(kind="csv"))


@pytest.mark.parametrize("name", ["a.csv", "a.jsonl"])
def test_small_parts_are_cut_without_a_look_at_the_file_for_each(tmp_path, monkeypatch, name):
    header, row = (
        ("id,text\n", '{},"{}"\n') if name == "a.csv" else ("", '{{"a": {}, "b": "{}"}}\n')
    )
    lines = (row.format(at, "x" * (at % 100)) for at in range(40_000))
    (tmp_path / name).write_text(header + "".join(lines))
    source = open_source(str(tmp_path / name))
    read, readinto = [], retry._readinto
    monkeypatch.setattr(retry, "_readinto", lambda *a: read.append(readinto(*a)) or read[-1])
    runs = source.cut(200)
    assert sum(read) < 10 * source.input_bytes
    rows = [batch.rows_read for run in runs for batch in source.read(run)]
    assert sum(rows) == 40_000
    assert len(rows) == 200
