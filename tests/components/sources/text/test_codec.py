"""Compressed text gives the rows and line numbers of the plain files; each file makes one shard."""

import bz2
import gzip
import json
import lzma

import pyarrow as pa
import pytest
from reading import rows_of

from penstock.components.errors import DataError
from penstock.components.example_gen.ingest import IngestInput, IngestOptions, ingest
from penstock.components.sources.open import open_source
from penstock.components.sources.options import Csv, Table
from penstock.components.sources.plain_text import Text
from penstock.components.sources.text import source as text_scan
from penstock.components.tfrecord.sharding import ShardOptions


def zstd(data):
    return pa.compress(data, codec="zstd", asbytes=True)


CODECS = {"gz": gzip.compress, "bz2": bz2.compress, "xz": lzma.compress, "zst": zstd}
ROWS = 3000
CSV = b"id,text\n" + b"".join(
    b'%d,"line %d\nof it, %s"\n' % (i, i, b"x" * (i % 300)) for i in range(ROWS)
)
JSON = b"".join(json.dumps({"id": i, "text": "y" * (i % 99)}).encode() + b"\n" for i in range(ROWS))


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize(
    ("name", "data", "options"),
    [("a.csv", CSV, Table()), ("a.jsonl", JSON, Table()), ("a.txt", JSON, Text())],
    ids=["csv", "jsonl", "text"],
)
def test_compressed_text_has_the_rows_of_the_plain(
    tmp_path, monkeypatch, codec, name, data, options
):
    monkeypatch.setattr(text_scan, "CELL_BYTES", 100_000)
    (tmp_path / name).write_bytes(data)
    plain = open_source(str(tmp_path / name), options)
    path = tmp_path / f"{name}.{codec}"
    path.write_bytes(CODECS[codec](data))
    source = open_source(str(path), options)
    assert (source.kind, source.columns, source.rows) == (plain.kind, plain.columns, plain.rows)
    expected = [
        {**row, **({"filename": path.name.encode()} if name == "a.txt" else {})}
        for row in rows_of(plain)
    ]
    assert rows_of(source, 3) == expected


@pytest.mark.parametrize("codec", CODECS)
def test_members_one_after_another_are_one_text(tmp_path, codec):
    compress, path = CODECS[codec], tmp_path / f"a.csv.{codec}"
    path.write_bytes(compress(CSV[:1000]) + compress(CSV[1000:]))
    assert [row["id"] for row in rows_of(open_source(str(path)))] == list(range(ROWS))


@pytest.mark.parametrize("codec", ["bz2", "xz"])
def test_empty_members_and_padding_between_members_end_no_text(tmp_path, codec):
    compress, path = CODECS[codec], tmp_path / f"a.csv.{codec}"
    members = [compress(CSV[:1000]), bytes(8), compress(b""), compress(CSV[1000:]), bytes(4)]
    path.write_bytes(b"".join(members))
    assert len(rows_of(open_source(str(path)))) == ROWS


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("fault", ["first byte", "damage", "cut", "garbage"])
def test_a_later_member_with_a_fault_is_named(tmp_path, codec, fault):
    compress, path = CODECS[codec], tmp_path / f"a.csv.{codec}"
    member = compress(CSV[1000:])
    middle = len(member) // 2
    later = {
        "first byte": b"\x01" + member[1:],
        "damage": member[:middle] + bytes(8) + member[middle + 8 :],
        "cut": member[:middle],
        "garbage": b"more",
    }[fault]
    path.write_bytes(compress(CSV[:1000]) + later)
    with pytest.raises(DataError, match=r"a\.csv\.\w+: its compressed data cannot be read"):
        open_source(str(path))


def test_text_that_begins_like_bzip2_is_text(tmp_path):
    (tmp_path / "a.csv").write_bytes(b"BZh9,b\n1,2\n")
    assert rows_of(open_source(str(tmp_path / "a.csv"), Csv())) == [{"BZh9": 1, "b": 2}]


def test_a_bad_row_is_named_by_its_line_in_the_text(tmp_path):
    text = b"a\n" + b"1\n" * 3000 + b"x\n" + b"2\n" * 3000
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(text))
    source = open_source(str(tmp_path / "a.csv.gz"), Csv())
    [rejected] = [one for batch in source.read(source.cut(1)[0]) for one in batch.rejected]
    assert (rejected.line, rejected.row, rejected.raw) == (3002, 3001, b"x")


def test_zstd_of_a_window_above_the_limit_is_refused(tmp_path):
    # A zstd frame with a window of 512 MiB and one raw block.
    frame = b"\x28\xb5\x2f\xfd\x00\x98" + (len(CSV) << 3 | 1).to_bytes(3, "little") + CSV
    (tmp_path / "a.csv.zst").write_bytes(frame)
    with pytest.raises(DataError, match=r"a\.csv\.zst: .* too much memory"):
        open_source(str(tmp_path / "a.csv.zst"))


@pytest.mark.parametrize("last", [b"", b"\n"])
@pytest.mark.parametrize("long", [b"", b'"' + b"z" * 5000])
def test_the_end_of_a_text_is_found_whatever_is_there(tmp_path, last, long):
    text = b"a,b\n1,2\n3,4" + (b"\n5," + long if long else b"") + last
    (tmp_path / "a.csv").write_bytes(text)
    (tmp_path / "a.csv.bz2").write_bytes(bz2.compress(text))
    found = []
    for name in ("a.csv", "a.csv.bz2"):
        source = open_source(str(tmp_path / name), Csv(max_row_bytes=1000))
        [run] = source.cut(1)
        read = [(b.table.to_pylist(), [r.reason for r in b.rejected]) for b in source.read(run)]
        found.append((source.rows, read))
    assert found[0] == found[1]


def test_a_compressed_file_makes_one_shard(tmp_path):
    for name in ("a", "b"):
        (tmp_path / f"{name}.csv.gz").write_bytes(gzip.compress(CSV))
    plans = []
    manifest = ingest(
        [IngestInput([str(tmp_path / "a.csv.gz"), str(tmp_path / "b.csv.gz")])],
        tmp_path / "out",
        IngestOptions(shards=ShardOptions(shards=5)),
        on_planned=lambda planned: plans.append(planned.plan.reason),
    )
    assert plans == ["2, one for each compressed file, which cannot be cut"]
    assert manifest.account.read == 2 * ROWS
    assert all(shard.rows > ROWS / 9 for shard in manifest.shards)


@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
@pytest.mark.parametrize("names", [None, ("a", "b")])
def test_comments_above_the_header_are_skipped(tmp_path, end, names):
    lines = [
        b"\xef\xbb\xbf# made by a tool, of us",
        b"",
        b"#x",
        *([] if names else [b"a;b"]),
        *[b"1;2"] * 3,
        b"#;4",
    ]
    (tmp_path / "a.csv").write_bytes(end.join(lines))
    source = open_source(str(tmp_path / "a.csv"), Csv(comment="#", column_names=names))
    assert source.rows == 4
    [batch] = source.read(source.cut(1)[0])
    assert batch.table.to_pylist() == [{"a": 1, "b": 2}] * 3
    assert [(row.line, row.raw) for row in batch.rejected] == [(len(lines), b"#;4")]
