"""Shards keep their bytes: the same rows give the same files, in every release and version set.

A digest that changes makes every cached ingest of its kind run again. So it changes only on
purpose, with a line in the changelog.
"""

import hashlib
import json
import sqlite3
import struct
import zlib
from datetime import datetime, timezone

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.components.example_gen.ingest import ingest
from penstock.components.example_gen.options import IngestInput, IngestOptions, Split, SplitOptions
from penstock.components.sources.avro import Avro
from penstock.components.sources.binary import Binary
from penstock.components.sources.images.options import Images
from penstock.components.sources.jsonl import JsonLines
from penstock.components.sources.options import Csv, Parquet
from penstock.components.sources.plain_text import Text
from penstock.components.tfrecord.sharding import ShardOptions

SPLITS = SplitOptions((Split("train", 2), Split("eval", 1)))
COUNT = 60


def digest(folder, patterns, source):
    """Sha256 of the digests of all shards of an ingest, in order."""
    options = IngestOptions(ShardOptions(shards=2))
    ingest([IngestInput(str(patterns), source, SPLITS)], folder, options)
    return shards_digest(folder)


def shards_digest(folder):
    shards = sorted(folder.glob("Split-*/*"))
    assert len(shards) > 1
    return hashlib.sha256(
        b"".join(hashlib.sha256(s.read_bytes()).digest() for s in shards)
    ).hexdigest()


def rows():
    for i in range(COUNT):
        yield {
            "id": i - 7,
            "fare": None if i % 9 == 0 else i / 4,
            "name": f"row {i} \u00e4" if i % 11 else None,
        }


def write_csv(path, *, quoted):
    lines = ["id,fare,name"]
    for row in rows():
        fare = "" if row["fare"] is None else row["fare"]
        name = row["name"] or ""
        if quoted:
            name = f'"{name}, ""so"" {"x" * (row["id"] % 5)}\n next line"'
        lines.append(f"{row['id']},{fare},{name}")
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def avro_rows():
    for i, row in enumerate(rows()):
        at = datetime(2020, 1, 1 + i % 28, tzinfo=timezone.utc)
        yield {**row, "raw": bytes([i, 0, 255]), "tags": list(range(i % 3)), "at": at}


def png(width, height, value):
    """A gray PNG whose pixels are stored, so that no library decides its bytes."""
    pixels = (b"\0" + bytes([value]) * width) * height
    stored = b"\x01" + struct.pack("<HH", len(pixels), ~len(pixels) & 0xFFFF) + pixels
    data = b"\x78\x01" + stored + struct.pack(">I", zlib.adler32(pixels))
    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)

    def chunk(name, body):
        return (
            struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))
        )

    parts = ((b"IHDR", header), (b"IDAT", data), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunk(*part) for part in parts)


def test_csv_keeps_its_bytes(tmp_path):
    write_csv(tmp_path / "a.csv", quoted=False)
    assert digest(tmp_path / "out", tmp_path / "a.csv", Csv()) == PLAIN_CSV


def test_quoted_csv_keeps_its_bytes(tmp_path):
    write_csv(tmp_path / "a.csv", quoted=True)
    assert digest(tmp_path / "out", tmp_path / "a.csv", Csv()) == QUOTED_CSV


def test_json_lines_keep_their_bytes(tmp_path):
    lines = (json.dumps({**row, "tags": [row["id"], 2], "on": row["id"] > 9}) for row in rows())
    (tmp_path / "a.jsonl").write_text("\n".join(lines) + "\n")
    assert digest(tmp_path / "out", tmp_path / "a.jsonl", JsonLines()) == JSON_LINES


def test_parquet_keeps_its_bytes(tmp_path):
    table = pa.Table.from_pylist(
        [{**row, "tags": [row["id"]] * (row["id"] % 3), "on": row["id"] > 9} for row in rows()],
        schema=pa.schema(
            [
                ("id", pa.int32()),
                ("fare", pa.float64()),
                ("name", pa.string()),
                ("tags", pa.list_(pa.int64())),
                ("on", pa.bool_()),
            ]
        ),
    )
    table = table.append_column("at", pa.array(range(COUNT), pa.timestamp("ms")))
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=25)
    assert digest(tmp_path / "out", tmp_path / "a.parquet", Parquet()) == PARQUET


def test_avro_keeps_its_bytes(tmp_path):
    import fastavro

    schema = {
        "type": "record",
        "name": "row",
        "fields": [
            {"name": "id", "type": "int"},
            {"name": "fare", "type": ["null", "double"]},
            {"name": "name", "type": ["null", "string"]},
            {"name": "raw", "type": "bytes"},
            {"name": "tags", "type": {"type": "array", "items": "long"}},
            {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        ],
    }
    with open(tmp_path / "a.avro", "wb") as file:
        fastavro.writer(file, schema, avro_rows(), sync_interval=500)
    assert digest(tmp_path / "out", tmp_path / "a.avro", Avro()) == AVRO


def test_a_database_keeps_its_bytes(tmp_path):
    from penstock.components.sources.sql.options import Sql

    with sqlite3.connect(tmp_path / "a.db") as database:
        database.execute("CREATE TABLE trips (id INTEGER PRIMARY KEY, fare REAL, name TEXT)")
        database.executemany("INSERT INTO trips VALUES (:id, :fare, :name)", rows())
    database.close()
    address = f"sqlite:///{tmp_path}/a.db"
    assert digest(tmp_path / "out", address, Sql(table="trips")) == SQL


def test_images_keep_their_bytes(tmp_path):
    for at in range(8):
        folder = tmp_path / "photos" / ("cat" if at % 2 else "dog")
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{at}.png").write_bytes(png(4 + at, 6, 20 * at))
    found = digest(tmp_path / "out", tmp_path / "photos", Images())
    raw = digest(tmp_path / "raw", tmp_path / "photos", Images(layout="decoded"))
    assert (found, raw) == (IMAGE_FILES, IMAGE_PIXELS)


def test_text_keeps_its_bytes(tmp_path):
    for at in range(3):
        (tmp_path / f"{at}.txt").write_text("".join(f"line {i} \u00e9\n\n" for i in range(at, 30)))
    found = digest(tmp_path / "lines", tmp_path / "*.txt", Text())
    documents = digest(tmp_path / "documents", tmp_path / "*.txt", Text(unit="document"))
    assert (found, documents) == (LINES, DOCUMENTS)


def test_binary_files_keep_their_bytes(tmp_path):
    for at in range(5):
        (tmp_path / f"{at}.bin").write_bytes(bytes(range(at, 40)))
    assert digest(tmp_path / "out", tmp_path / "*.bin", Binary()) == BINARY


def test_tfrecords_keep_their_bytes(tmp_path):
    from penstock.components.sources.tfrecords.source import TFRecord

    write_csv(tmp_path / "a.csv", quoted=False)
    digest(tmp_path / "first", tmp_path / "a.csv", Csv())
    shards = tmp_path / "first" / "Split-*" / "data_tfrecord-*"
    assert digest(tmp_path / "out", shards, TFRecord()) == TFRECORDS


def test_a_tfds_builder_keeps_its_bytes(tmp_path):
    import numpy as np
    import tensorflow_datasets as tfds

    from penstock.components.sources.tfrecords.tfds import Tfds

    tfds.dataset_builders.store_as_tfds_dataset(
        name="tiny",
        version="1.0.0",
        # One feature: TFDS writes several in an order that changes from run to run.
        features=tfds.features.FeaturesDict({"x": np.int64}),
        data_dir=str(tmp_path),
        split_datasets={"train": [(i, {"x": i}) for i in range(20)]},
    )
    assert digest(tmp_path / "out", tmp_path / "tiny" / "1.0.0", Tfds()) == TFDS


@pytest.mark.slow
def test_a_spark_data_frame_keeps_its_bytes(spark, tmp_path):
    from penstock.components.example_gen.spark_writer import write_tfrecords

    frame = spark.range(0, COUNT, 1, 1).selectExpr("id", "id / 4 as fare", "'a' as name")
    write_tfrecords(frame, str(tmp_path / "out"), splits=SPLITS)
    assert shards_digest(tmp_path / "out") == SPARK


PLAIN_CSV = "99d06da37988f197a2c91f74782f4b193651d562c42e928c96dd6d99d4522653"
QUOTED_CSV = "cdb0363a60e3aefdb334ed5ed9563d6bb97c77406569778ea2de0d4af527969f"
JSON_LINES = "40b9572911091b3918a64ce864f518708ce6476645e0103028069257e95c1ffe"
PARQUET = "3a2dcd32959c6edd38a124c4f2a1e3bbc74abb8056cb2b39c24b081f56ba35a3"
AVRO = "215254f61899d7a5a2c37b1a29f4b61f57f6668b53830b3ae6839de8e99419a9"
SQL = "d217b848a05c9296f06aeddb1810c0a4983ac3a6eab899915ed1e7aa1f034ab6"
IMAGE_FILES = "1e4ed718bc7b4a17e497157df7f6688f78056abb524c63c83d40fc822e473cbf"
IMAGE_PIXELS = "6662f7fa56d7bbea06f0c2520f7afd8032faa34beaaf8fee58b13c089af66575"
LINES = "c7d5bde13c70784e58d665d66515735738f522eae1278df32500d0ec8bd250a2"
DOCUMENTS = "1b4a3ad12f2d52b417b43ca23106654c0531a344d4703ea3e7cd182a1a6de573"
BINARY = "b2929075b91599bfab75dc38a82620a9027bd346c02688eafb5f3eb020f2908d"
TFRECORDS = "efd84b3554eca009bffc7945f12ea24a6e92dd178a6a4b1db598f5013ec6a59b"
TFDS = "4e7c5296146df4144da1f8a7ec7baabc450c20c9452193ed26cf484eb851b1ca"
SPARK = "3b10e668619fa4dade8ccd906b4ad59802b55e021b127c6407b80137bcc9072a"
