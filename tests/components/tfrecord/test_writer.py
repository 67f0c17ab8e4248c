import gzip
import hashlib
import os

import pyarrow as pa
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.components.tfrecord.encoder import encode_examples
from penstock.components.tfrecord.writer import (
    ShardWriter,
    digest_large,
    encode_large,
    frame_large,
    frame_records,
    has_large_values,
)

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


def test_a_shard_that_failed_leaves_nothing(tmp_path):
    with (
        pytest.raises(RuntimeError, match="disk on fire"),
        ShardWriter(tmp_path, FILE) as writer,
    ):
        writer.write(frame_records(pa.array(RECORDS, pa.binary())))
        raise RuntimeError("disk on fire")
    assert list((tmp_path / "Split-train").iterdir()) == []


def test_an_empty_shard_is_an_empty_file(tmp_path):
    with ShardWriter(tmp_path, FILE) as writer:
        shard = writer.finish()
    assert (shard.rows, shard.bytes) == (0, 0)
    assert (tmp_path / FILE).read_bytes() == b""


SMALL = st.binary(max_size=20)
# Empty, about as long as the bound between large and small, and beyond.
LARGE = st.builds(
    lambda n, c: c * n, st.sampled_from([0, 1, 5000, 9000]), st.sampled_from([b"a", b"z"])
)
KINDS = {
    "large": (LARGE, pa.binary()),
    "small": (SMALL, pa.binary()),
    "int": (st.integers(-(2**63), 2**63 - 1), pa.int64()),
    "float": (st.floats(width=32), pa.float32()),
    "larges": (st.lists(LARGE, max_size=3), pa.list_(pa.binary())),
    "ints": (st.lists(st.integers(0, 300), max_size=3), pa.list_(pa.int64())),
}


@st.composite
def batches(draw):
    rows = draw(st.integers(0, 5))
    kinds = draw(st.lists(st.sampled_from(sorted(KINDS)), max_size=5))
    names = draw(
        st.lists(st.text(max_size=5), unique=True, min_size=1 + len(kinds), max_size=1 + len(kinds))
    )
    arrays = []
    for kind in ("large", *kinds):
        values, type_ = KINDS[kind]
        if draw(st.booleans()):
            values = st.none() | values
        arrays.append(pa.array(draw(st.lists(values, min_size=rows, max_size=rows)), type_))
    return pa.record_batch(arrays, names).slice(draw(st.integers(0, 1)))


@settings(max_examples=60, deadline=None)
@given(batches())
def test_pieces_are_the_bytes_of_whole_records(batch):
    whole = encode_examples(batch)
    pieces = encode_large(batch)
    assert [b"".join(map(bytes, record)) for record in pieces] == whole.to_pylist()
    framed = [b"".join(map(bytes, record)) for record in frame_large(pieces)]
    assert framed == frame_records(whole).to_pylist()
    digests = [hashlib.sha256(record).digest() for record in whole.to_pylist()]
    assert list(digest_large(pieces)) == digests


def test_a_large_value_is_not_copied():
    images = pa.array([b"x" * 5000, b"", b"y" * 9000], pa.binary())
    batch = pa.record_batch([images, pa.array([1, 2, 3], pa.int64())], ["image", "label"])
    start = images.buffers()[2].address
    assert has_large_values(batch)
    places = [record[1].address - start for record in encode_large(batch)]
    assert places == [0, 5000, 5000]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (pa.array([b"x" * 5000, b"x" * 3192], pa.binary()), True),
        (pa.array([b"x" * 5000, b"x" * 3000], pa.binary()), False),
        (pa.array([b"x" * 5000, b"x" * 3192], pa.binary()).slice(1), False),
        (pa.array([], pa.binary()), False),
        (pa.array([[b"x" * 9000]], pa.list_(pa.binary())), False),
    ],
)
def test_which_values_are_large(values, expected):
    assert has_large_values(pa.record_batch([values], ["a"])) == expected


@pytest.mark.parametrize("compression", ["", "GZIP"])
def test_a_shard_is_the_same_either_way(tmp_path, compression):
    images = [bytes([n]) * (5000 + n) for n in range(200)] + [b"", b"\x01" * 2_000_000]
    batch = pa.record_batch([pa.array(images, pa.binary()), pa.array(range(202))], ["a", "b"])
    with ShardWriter(tmp_path, "whole", compression=compression) as out:
        out.write(frame_records(encode_examples(batch)))
        whole = out.finish()
    with ShardWriter(tmp_path, "pieces", compression=compression) as out:
        out.write_large(frame_large(encode_large(batch)))
        out.write_large([])
        pieces = out.finish()
    assert (pieces.rows, pieces.bytes, pieces.sha256) == (202, whole.bytes, whole.sha256)
    assert (tmp_path / "pieces").read_bytes() == (tmp_path / "whole").read_bytes()


def test_what_the_system_does_not_take_at_once_is_written_after_all(tmp_path, monkeypatch):
    # Stands for a system that takes a part only: a signal, a full pipe, more than 2 GiB.
    real = os.writev
    monkeypatch.setattr(
        os, "writev", lambda file, pieces: real(file, [b"".join(map(bytes, pieces))[:700]])
    )
    batch = pa.record_batch([pa.array([b"x" * 5000, b"y" * 4000], pa.binary())], ["a"])
    with ShardWriter(tmp_path, "shard") as out:
        out.write_large(frame_large(encode_large(batch)))
        out.finish()
    expected = b"".join(frame_records(encode_examples(batch)).to_pylist())
    assert (tmp_path / "shard").read_bytes() == expected
