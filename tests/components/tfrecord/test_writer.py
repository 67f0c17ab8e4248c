import gzip
import hashlib
import io

import pyarrow as pa
import pytest
import tensorflow as tf

from penstock.components.tfrecord.writer import ShardWriter, frame_records

RECORDS = [b"", b"one", b"two" * 1000]
FILE = "Split-train/data_tfrecord-00000-of-00001"


def write(root, file, *, compression=""):
    with ShardWriter(root, file, compression=compression) as writer:
        writer.write(frame_records(pa.array(RECORDS[:2], pa.binary())))
        writer.write(frame_records(pa.array([], pa.binary())))
        writer.write(frame_records(pa.array([b"skip", *RECORDS[2:]], pa.binary())).slice(1))
        return writer.finish()


@pytest.mark.parametrize("compression", ["", "GZIP"])
def test_tensorflow_reads_what_was_written(tmp_path, compression):
    shard = write(tmp_path, FILE, compression=compression)
    path = tmp_path / FILE
    read = [r.numpy() for r in tf.data.TFRecordDataset(str(path), compression_type=compression)]
    assert read == RECORDS
    assert (shard.file, shard.rows) == (FILE, 3)
    assert shard.bytes == path.stat().st_size
    assert shard.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()


def test_gzip_is_the_same_bytes_every_time(tmp_path):
    assert write(tmp_path, "a.gz", compression="GZIP").sha256 == (
        write(tmp_path, "b.gz", compression="GZIP").sha256
    )
    assert len(gzip.decompress((tmp_path / "a.gz").read_bytes())) == 3 * 16 + 3 + 3000


def test_an_empty_shard_is_an_empty_file(tmp_path):
    with ShardWriter(tmp_path, FILE) as writer:
        shard = writer.finish()
    assert (shard.rows, shard.bytes) == (0, 0)
    assert (tmp_path / FILE).read_bytes() == b""


def test_what_the_system_does_not_take_at_once_is_written_after_all(tmp_path):
    # Simulates a write that takes only a part of the data, as after a signal, at a full pipe, or
    # above 2 GiB.
    class Partly(io.FileIO):
        def write(self, data, /):
            return super().write(data[:700])

    framed = frame_records(pa.array([b"x" * 5000, b"y" * 4000], pa.binary()))
    with ShardWriter(tmp_path, "shard") as out:
        out._out.close()
        out._out = Partly(out._path, "wb")
        out.write(framed)
        out.finish()
    assert (tmp_path / "shard").read_bytes() == b"".join(framed.to_pylist())
