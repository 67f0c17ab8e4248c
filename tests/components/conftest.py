import gzip
import hashlib
import importlib.util
import struct
from dataclasses import dataclass, field
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
    """A record on disk, encoded here without Penstock's code so that it checks the readers."""
    length = struct.pack("<Q", len(payload))
    crcs = [struct.pack("<I", mask(google_crc32c.value(data))) for data in (length, payload)]
    return length + crcs[0] + payload + crcs[1]


@pytest.fixture
def frame():
    return frame_of


@pytest.fixture
def tfrecord(tmp_path):
    """Writes a TFRecord file of payloads, compressed with GZIP if its name ends in `.gz`."""

    def write(name, payloads):
        data = b"".join(map(frame_of, payloads))
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(gzip.compress(data, 1) if name.endswith(".gz") else data)
        return path

    return write


@pytest.fixture
def put(tmp_path):
    """Writes a file below a folder, and returns the path of the folder."""
    root = tmp_path / "put"

    def write(name, data=b"x"):
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        return root

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


@dataclass
class ReadOut:
    """All rows and errors that a source returned."""

    rows: list = field(default_factory=list)
    rejected: list = field(default_factory=list)
    blank: int = 0

    @property
    def errors(self):
        """Messages of the rejected rows, as strict mode raises them, without the file's folder."""
        return [str(row).rsplit("/", 1)[-1] for row in self.rejected]


@pytest.fixture
def read_out():
    """Reads a source in a number of parts, and checks that its counts are exact."""

    def read(source, parts=1):
        out, read_rows = ReadOut(), 0
        for run in source.cut(parts):
            for batch in source.read(run):
                assert batch.table.num_rows <= 8192
                columns = [column.to_pylist() for column in batch.table.columns]
                out.rows += [list(row) for row in zip(*columns, strict=True)]
                out.rejected += batch.rejected
                out.blank += batch.blank
                read_rows += batch.rows_read
        assert read_rows == source.rows == len(out.rows) + len(out.rejected) + out.blank
        return out

    return read
