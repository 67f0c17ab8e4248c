"""The same rows give shards with the same bytes, in every release and with all library versions.

If one of the digests below changes, every cached ingest of that kind of data runs again. So a
digest changes only on purpose, with a line in the changelog.
"""

import hashlib
import struct
import zlib

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.components.example_gen.ingest import ingest
from penstock.components.example_gen.options import IngestInput, IngestOptions, Split, SplitOptions
from penstock.components.sources.images.options import Images
from penstock.components.sources.options import Csv, Parquet
from penstock.components.tfrecord.sharding import ShardOptions
from tests.components.sources.test_contract import KINDS

SPLITS = SplitOptions((Split("train", 2), Split("eval", 1)))
COUNT = 60
PLAIN_CSV = "99d06da37988f197a2c91f74782f4b193651d562c42e928c96dd6d99d4522653"
QUOTED_CSV = "cdb0363a60e3aefdb334ed5ed9563d6bb97c77406569778ea2de0d4af527969f"
PARQUET = "3a2dcd32959c6edd38a124c4f2a1e3bbc74abb8056cb2b39c24b081f56ba35a3"
IMAGE_FILES = "1e4ed718bc7b4a17e497157df7f6688f78056abb524c63c83d40fc822e473cbf"
IMAGE_PIXELS = "6662f7fa56d7bbea06f0c2520f7afd8032faa34beaaf8fee58b13c089af66575"
TFDS = "4e7c5296146df4144da1f8a7ec7baabc450c20c9452193ed26cf484eb851b1ca"
SPARK = "3b10e668619fa4dade8ccd906b4ad59802b55e021b127c6407b80137bcc9072a"
CONTRACT = {
    "jsonl": "e222f41be3218a7e4fe772c1418d8d1f67494c24600209720032924cc0dc8a33",
    "avro": "c427f79d94caea1617b1b0a42eaab72538a9caee12b2fdaa358c5215304d5f07",
    "sql": "ec8807357b1d478432605788c571cac2ec170d516fd4d0d3f8620a5e731b2466",
    "text": "3bacfcfb916b34dcda34ec0a12eb96ba9333687ce7d0f5e260cc7575e55f5c01",
    "document": "83ff3f0eed970ebbda8770796416bb089b88089856fc6177229f799f820a5171",
    "binary": "ba79c82b69742d798ba941f9cc6ee1cd22d5c17527296813966e60ab7312b72a",
    "tfrecord": "f8f217b60992851dd67aed4a4009ad364a26cfb7a1e587915bbe6e489b9df9c2",
}


def digest(folder, patterns, source):
    """Runs an ingest; returns the sha256 of the digests of all its shards, in order."""
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


def png(width, height, value):
    """A gray PNG with uncompressed pixels, so that its bytes do not depend on a library."""
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


def test_images_keep_their_bytes(tmp_path):
    for at in range(8):
        folder = tmp_path / "photos" / ("cat" if at % 2 else "dog")
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{at}.png").write_bytes(png(4 + at, 6, 20 * at))
    found = digest(tmp_path / "out", tmp_path / "photos", Images())
    raw = digest(tmp_path / "raw", tmp_path / "photos", Images(layout="decoded"))
    assert (found, raw) == (IMAGE_FILES, IMAGE_PIXELS)


@pytest.mark.parametrize("kind", CONTRACT)
def test_rows_of_the_contract_keep_their_bytes(tmp_path, kind):
    write, options = KINDS[kind]
    write(tmp_path / "data", 1)
    place = f"{'sqlite:///' * (kind == 'sql')}{tmp_path}/data"
    assert digest(tmp_path / "out", place, options) == CONTRACT[kind]


def test_a_tfds_builder_keeps_its_bytes(tmp_path):
    import numpy as np
    import tensorflow_datasets as tfds

    from penstock.components.sources.tfrecords.tfds import Tfds

    tfds.dataset_builders.store_as_tfds_dataset(
        name="tiny",
        version="1.0.0",
        # The data set has one feature, because TFDS writes several features in an order that
        # changes from run to run.
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
