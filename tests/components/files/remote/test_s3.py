"""Objects of moto's S3 server, over HTTP on loopback, through a proxy that fails on demand."""

import os
import pickle
import urllib.request
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from lake_tables import IcebergTable, write_delta
from reading import data_error

from penstock.components.files import remote_range
from penstock.components.sources.binary import Binary
from penstock.components.sources.lake import Delta, Iceberg
from penstock.components.sources.open import open_source

pytestmark = pytest.mark.slow
CSV = b"id,n\n" + b"".join(b"%d,%d\n" % (i, i * i) for i in range(1000))


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("s3://bucket/d", ["a.csv", "b.csv"]),
        ("s3://bucket/d/", ["a.csv", "b.csv"]),
        ("s3://bucket/d/*.csv", ["a.csv", "b.csv"]),
        ("s3://bucket/d/*", ["a.csv", "b.csv"]),
        ("s3://bucket/d/b.csv", ["b.csv"]),
        ("s3://bucket/d/**", ["a.csv", "b.csv", "sub/c.csv"]),
        ("s3a://bucket/d/*.csv", ["a.csv", "b.csv"]),
        ("S3N://bucket/d/b.csv", ["b.csv"]),
    ],
)
def test_folders_globs_and_files(s3, read_out, pattern, names):
    for name in ("d/a.csv", "d/b.csv", "d/sub/c.csv"):
        s3.put_object(Bucket="bucket", Key=name, Body=CSV)
    for name in ("d/_SUCCESS", "d/", "d/.crc"):
        s3.put_object(Bucket="bucket", Key=name, Body=b"")
    source = open_source(pattern)
    assert list(source.files) == [f"s3://bucket/d/{name}" for name in names]
    copy = pickle.loads(pickle.dumps(source))
    assert len(read_out(copy, parts=3).rows) == 1000 * len(names)


def test_partitions(s3, read_out, tmp_path):
    pq.write_table(pa.table({"x": [1]}), tmp_path / "x.parquet")
    for year in (2023, 2024):
        key = f"trips/year={year}/x.parquet"
        s3.put_object(Bucket="bucket", Key=key, Body=(tmp_path / "x.parquet").read_bytes())
    source = open_source("s3a://bucket/trips/year=*/*.parquet")
    assert read_out(source).rows == [[1, 2023], [1, 2024]]
    s3.put_object(Bucket="bucket", Key="trips/_SUCCESS", Body=b"")  # Spark writes this marker
    for place in ("s3a://bucket/trips", "s3://bucket/trips/"):
        assert read_out(open_source(place)).rows == [[1, 2023], [1, 2024]]
    s3.put_object(
        Bucket="bucket", Key="trips/y.parquet", Body=(tmp_path / "x.parquet").read_bytes()
    )
    assert "trips/y.parquet: lacks 'year'" in data_error(lambda: open_source("s3://bucket/trips"))


@pytest.mark.parametrize("partition_by", [[], ["day"]])
def test_a_delta_table_is_read_by_its_log_and_not_as_a_folder(s3, read_out, tmp_path, partition_by):
    for first in (0, 3):
        columns = {"id": range(first, first + 3), "day": ["a b/c", "x", None]}
        write_delta(tmp_path / "t", columns, partition_by=partition_by)
    for path in (tmp_path / "t").rglob("*.*"):
        s3.upload_file(str(path), "bucket", f"lake/{path.relative_to(tmp_path)}")
    source = open_source("s3a://bucket/lake/t", Delta(as_of=0))
    assert sorted(read_out(source).rows) == [[0, b"a b/c"], [1, b"x"], [2, None]]
    for place, options, reason in (
        ("s3://bucket/lake", Delta(), "name the folder that holds _delta_log"),
        ("s3a://bucket/lake/t", None, "is a Delta table, whose log decides"),
        ("s3://bucket/lake/t/", None, "is a Delta table, whose log decides"),
    ):
        assert reason in data_error(lambda p=place, o=options: open_source(p, o))


def test_an_iceberg_table_is_read_by_its_metadata(s3, read_out, tmp_path):
    from pyiceberg.schema import Schema
    from pyiceberg.types import LongType, NestedField

    def store(path):
        s3.upload_file(str(path), "bucket", f"data/{path.name}")
        return f"s3://bucket/data/{path.name}"

    table = IcebergTable(
        tmp_path, Schema(NestedField(1, "id", LongType(), required=False)), store=store,
        warehouse="s3://bucket/warehouse",
        **{"py-io-impl": "pyiceberg.io.fsspec.FsspecFileIO"},
        **{"s3.endpoint": os.environ["AWS_ENDPOINT_URL"]},
    )  # fmt: skip
    first = table.append({"id": [1, 2]})
    table.append({"id": [3]})
    place = table.table.metadata_location
    assert place.startswith("s3://")
    assert read_out(open_source(place, Iceberg())).rows == [[1], [2], [3]]
    assert read_out(open_source(place, Iceberg(as_of=first))).rows == [[1], [2]]


def test_what_is_wrong_is_named_by_its_address(s3, read_out):
    s3.put_object(Bucket="bucket", Key="cut.parquet", Body=b"PAR1")
    s3.put_object(Bucket="bucket", Key="bad.csv", Body=b"a,b\n1,2\n3\n")
    out = read_out(open_source("s3://bucket/bad.csv"))
    assert str(out.rejected[0]).startswith("s3://bucket/bad.csv: line 3 (row 2)")
    for name, reason in {
        "bucket/cut.parquet": "damaged",
        "bucket/none": "no such file or folder",
        "elsewhere/x": "no such file or folder (NoSuchBucket: The specified bucket does not exist)",
    }.items():
        message = data_error(lambda name=name: open_source(f"s3://{name}"))
        assert message.startswith(f"s3://{name}: {reason}")


@pytest.mark.parametrize("fault", ["503", "reset", "short", "stall"])
def test_a_fault_is_survived_a_few_times_and_then_named(s3, proxy, read_out, monkeypatch, fault):
    monkeypatch.setattr(remote_range, "BLOCK_BYTES", 2000)
    s3.put_object(Bucket="bucket", Key="a.csv", Body=CSV)
    proxy.faults += [fault, fault]
    out = read_out(open_source("s3://bucket/a.csv"))
    assert proxy.faults == []
    assert out.rows == [[i, i * i] for i in range(1000)]
    s3.put_object(Bucket="bucket", Key="b.csv", Body=CSV)
    proxy.faults += [fault] * 100
    message = data_error(lambda: open_source("s3://bucket/b.csv"))
    assert message.startswith("s3://bucket/b.csv: cannot be read, 5 tries failed (")
    assert list(Path(os.environ["PENSTOCK_SPOOL"]).iterdir()) == []
    assert len(proxy.faults) in (90, 95)  # aiohttp retries once on a kept-open connection


def test_what_is_read_is_what_was_scanned(s3, read_out):
    first = s3.put_object(Bucket="bucket", Key="a.csv", Body=CSV)["ETag"]
    source = open_source("s3://bucket/a.csv")
    changed = CSV.replace(b"10,100", b"10,999")
    now = s3.put_object(Bucket="bucket", Key="a.csv", Body=changed)["ETag"]
    assert data_error(lambda: read_out(source)) == (
        f"s3://bucket/a.csv: was changed since it was listed ({len(CSV)} bytes, version {first}; "
        f"now {len(CSV)} bytes, version {now}); start again"
    )
    assert open_source("s3://bucket/a.csv").fingerprint != source.fingerprint


@pytest.fixture
def strict_moto(moto):
    """Makes the server check credentials during the test."""

    def allow(count):
        address = f"http://127.0.0.1:{moto}/moto-api/reset-auth"
        plain = {"Content-Type": "text/plain"}
        urllib.request.urlopen(urllib.request.Request(address, str(count).encode(), plain))

    allow(0)
    yield
    allow("inf")


def test_wrong_credentials(s3, request):
    s3.put_object(Bucket="bucket", Key="a.csv", Body=CSV)
    request.getfixturevalue("strict_moto")
    message = data_error(lambda: open_source("s3://bucket/a.csv"))
    assert message == (
        "s3://bucket/a.csv: permission denied (403: Forbidden); give credentials in the provider's "
        "own environment variables or files"
    )


def test_no_credentials(s3, monkeypatch):
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    assert data_error(lambda: open_source("s3://bucket/a.csv")) == (
        "s3://bucket/a.csv: Unable to locate credentials; give credentials in the provider's own "
        "environment variables or files"
    )


def test_names_that_look_like_globs_or_paths(s3, read_out):
    s3.put_object(Bucket="bucket", Key="d/a[1].csv", Body=b"x\n1\n")
    s3.put_object(Bucket="bucket", Key="e//a b.csv", Body=b"x\n2\n")
    s3.put_object(Bucket="bucket", Key="e/a b.csv", Body=b"x\n3\n")
    assert read_out(open_source("s3://bucket/d/a[1].csv")).rows == [[1]]
    source = open_source(["s3://bucket/e//a b.csv", "S3://bucket/e/a b.csv"])
    assert read_out(source).rows == [[2], [3]]
    source = open_source(["s3://bucket/e//a b.csv", "s3://bucket/e/a b.csv"], Binary())
    assert source.rows == 2
    named = read_out(open_source("s3a://bucket/e", Binary())).rows
    assert named == read_out(open_source("s3://bucket/e", Binary())).rows
    message = data_error(lambda: open_source("s3://bucket/none/*.csv"))
    assert message == "s3://bucket/none/*.csv: no data file matches; expected at least one"
