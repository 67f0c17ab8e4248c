import gzip
import hashlib
import importlib.util
import struct
from pathlib import Path

import google_crc32c
import pytest

from penstock.components.tfrecord.example_proto import SequenceExample
from penstock.components.tfrecord.manifest import (
    Manifest,
    ManifestColumn,
    RowAccount,
    Shard,
    write_manifest,
)


def mask(crc):
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) % 2**32


def frame_of(payload):
    """A record on disk, written out anew here so that it checks what reads it."""
    length = struct.pack("<Q", len(payload))
    crcs = [struct.pack("<I", mask(google_crc32c.value(data))) for data in (length, payload)]
    return length + crcs[0] + payload + crcs[1]


@pytest.fixture
def frame():
    return frame_of


@pytest.fixture
def tfrecord(tmp_path):
    """Writes a TFRecord file of payloads, GZIP where its name says so."""

    def write(name, payloads):
        data = b"".join(map(frame_of, payloads))
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(gzip.compress(data, 1) if name.endswith(".gz") else data)
        return path

    return write


@pytest.fixture
def row():
    """Row `i` as a serialized tf.train.Example of 34 bytes."""

    def make(i):
        message = SequenceExample()
        message.context.feature["id"].int64_list.value.append(i % 100)
        message.context.feature["word"].bytes_list.value.append(b"water")
        return message.SerializeToString(deterministic=True)

    return make


@pytest.fixture
def artifact(tmp_path, tfrecord, row):
    """An Examples artifact: train has two shards of 10 rows, eval one of 5."""
    root = tmp_path / "examples"
    layout = {"train": (10, 10), "eval": (5,)}
    splits = {}
    for split, sizes in layout.items():
        shards = []
        for index, rows in enumerate(sizes):
            file = f"Split-{split}/data_tfrecord-{index:05d}-of-{len(sizes):05d}"
            data = tfrecord(f"examples/{file}", map(row, range(rows))).read_bytes()
            shards.append(Shard(file, rows, len(data), hashlib.sha256(data).hexdigest()))
        splits[split] = tuple(shards)
    manifest = Manifest(
        splits=splits,
        columns=(ManifestColumn("id", "INT"), ManifestColumn("word", "BYTES")),
        schema_sha256="0" * 64,
        source_kind="csv",
        source_fingerprint="1" * 64,
        source_files=1,
        account=RowAccount(read=25, written={"train": 20, "eval": 5}),
    )
    write_manifest(root, manifest)
    return root


@pytest.fixture(scope="session")
def tfx_data():
    """TFX's own test data, found without importing TFX."""
    (tfx,) = importlib.util.find_spec("tfx").submodule_search_locations
    return Path(tfx, "components", "testdata", "external")
