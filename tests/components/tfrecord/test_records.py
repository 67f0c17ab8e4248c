import gzip
import struct
import tracemalloc
import zlib

import google_crc32c
import pytest

from penstock.components.errors import DataError
from penstock.components.tfrecord.compression import CHUNK_BYTES
from penstock.components.tfrecord.records import RecordReader, in_batches, open_file, read_records


def error_of(path):
    with pytest.raises(DataError) as caught:
        list(read_records(path))
    return str(caught.value)


def test_reads_number_offset_and_payload(tfrecord):
    path = tfrecord("a", [b"penstock", b"", b"abc"])
    assert list(read_records(path)) == [(0, 0, b"penstock"), (1, 24, b""), (2, 40, b"abc")]


@pytest.mark.parametrize("compression", ["", "GZIP", "ZLIB"])
def test_reads_what_tensorflow_writes(tmp_path, compression):
    import tensorflow as tf

    payloads = [b"x" * size for size in (0, 1, 500, CHUNK_BYTES, 3 * CHUNK_BYTES + 1, 7)]
    path = str(tmp_path / "tf")
    with tf.io.TFRecordWriter(path, compression) as writer:
        for payload in payloads:
            writer.write(payload)
    with open_file(path) as file:
        reader = RecordReader(file, path)
        assert [record.payload for record in reader.records()] == payloads
        assert reader.compression == compression


def test_compression_is_decided_by_content_not_by_name(tmp_path, tfrecord):
    plain = tfrecord("plain", [b"a"]).rename(tmp_path / "plain.gz")
    packed = tfrecord("packed.gz", [b"a"]).rename(tmp_path / "packed")
    assert list(read_records(plain)) == list(read_records(packed)) == [(0, 0, b"a")]


def test_a_length_that_begins_like_gzip_is_a_length(tfrecord):
    payload = bytes(0x08_8B1F)
    path = tfrecord("a", [payload])
    assert path.read_bytes()[:3] == b"\x1f\x8b\x08"
    assert [record.payload for record in read_records(path)] == [payload]


def test_gzip_members_follow_one_another_with_padding(tmp_path, frame):
    path = tmp_path / "a.gz"
    path.write_bytes(gzip.compress(frame(b"a")) + gzip.compress(frame(b"b")) + bytes(512))
    assert [record.payload for record in read_records(path)] == [b"a", b"b"]


@pytest.mark.parametrize(
    ("at", "by", "fault"),
    [
        (
            24 + 12,
            1,
            "payload of 3 bytes has CRC 0x21f1576e, expected 0xfe1610ed; the record is da",
        ),
        (
            -1,
            0xFF,
            "payload of 3 bytes has CRC 0xdef1576e, expected 0x21f1576e; the record is dama",
        ),
        (24 + 7, 0x10, "length 1,152,921,504,606,846,979 has CRC 0x0e4999b0, expected 0x879b793d;"),
    ],
)
def test_a_flipped_byte_is_named(tfrecord, at, by, fault):
    path = tfrecord("a", [b"penstock", b"abc"])
    data = bytearray(path.read_bytes())
    data[at] ^= by
    path.write_bytes(data)
    assert error_of(path).startswith(f"{path}: record 1 at offset 24: {fault}")


@pytest.mark.parametrize(("rows", "size"), [(4, 1 << 20), (100, 25), (1, 1), (100, 1 << 20)])
def test_batches_are_the_records(tfrecord, rows, size):
    path = tfrecord("a", [bytes([65 + at]) * at for at in range(11)])
    batches = list(in_batches(read_records(path), rows, size))
    assert max(map(len, batches)) <= rows
    assert [record for batch in batches for record in batch] == list(read_records(path))


def test_reading_goes_on_behind_damaged_payloads_where_they_are_taken(tfrecord):
    path = tfrecord("a", [b"one", b"two", b"three"])
    data = bytearray(path.read_bytes())
    data[12] ^= 1
    data[19 + 12] ^= 1
    path.write_bytes(data)
    errors = []
    with open_file(path) as file:
        records = list(RecordReader(file, "a").records(on_bad_payload=errors.append))
    assert records == [(2, 38, b"three")]
    assert [str(error).split(": payload")[0] for error in errors] == [
        "a: record 0 at offset 0",
        "a: record 1 at offset 19",
    ]


def test_an_absurd_length_with_the_right_crc_allocates_nothing(tmp_path, frame):
    length = struct.pack("<Q", 2**60)
    crc = google_crc32c.value(length)
    masked = ((crc >> 15 | crc << 17) + 0xA282EAD8) % 2**32
    path = tmp_path / "a"
    path.write_bytes(frame(b"abc") + length + struct.pack("<I", masked) + b"abc")
    tracemalloc.start()
    message = error_of(path)
    assert tracemalloc.get_traced_memory()[1] < 4 * CHUNK_BYTES
    tracemalloc.stop()
    assert message == (
        f"{path}: record 1 at offset 19: length 1,152,921,504,606,846,976 is above the "
        "2,147,483,647 bytes that a record can have; nothing after it can be read"
    )


@pytest.mark.parametrize(
    ("keep", "part"),
    [
        (19 + 5, "5 of the 12 bytes of its header"),
        (19 + 12, "0 of the 8 bytes of its payload"),
        (19 + 15, "3 of the 8 bytes of its payload"),
        (19 + 22, "2 of the 4 bytes of its payload CRC"),
    ],
)
def test_a_cut_record_is_named(tfrecord, keep, part):
    path = tfrecord("a", [b"abc", b"penstock"])
    path.write_bytes(path.read_bytes()[:keep])
    assert error_of(path) == (
        f"{path}: record 1 at offset 19: the file is cut, it has {part}; write or copy the "
        "file again"
    )


def test_a_cut_gzip_is_named_at_the_record_that_is_missing(tfrecord, frame):
    path = tfrecord("a.gz", [b"abc", b"penstock"])
    packer = zlib.compressobj(wbits=31)
    whole = packer.compress(frame(b"abc")) + packer.flush(zlib.Z_FULL_FLUSH)
    path.write_bytes(whole)
    assert error_of(path) == (
        f"{path}: GZIP data is cut: it ends without its end mark, at or after record 1 at "
        "offset 19; write or copy the file again"
    )


@pytest.mark.parametrize(
    ("damage", "fault"),
    [
        (lambda data: data[:-4], "cut: it ends without its end mark, at or after record 1 at of"),
        (lambda data: data[:-8] + bytes([data[-8] ^ 1]) + data[-7:], "damaged (Error -3 while dec"),
        (
            lambda data: data + b"garbage",
            "damaged (Error -3 while decompressing data: incorrect he",
        ),
    ],
)
def test_a_damaged_gzip_is_named(tfrecord, damage, fault):
    path = tfrecord("a.gz", [b"abc"])
    path.write_bytes(damage(path.read_bytes()))
    assert error_of(path).startswith(f"{path}: GZIP data is {fault}")


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (b"trip_miles,fare\n1.0,2.0\n", ", it looks like text"),
        (b"PAR1" + bytes(20), ", it looks like Parquet"),
        (b"\x80\x04" + bytes(20), ""),  # either the length 1,152 or the start of a pickle
        (b"\x89PNG\r\n\x1a\n" + bytes(20), ", it looks like a PNG image"),
        (b"\x01" + bytes(20), ""),
    ],
)
def test_a_file_of_another_kind_is_recognised(tmp_path, content, kind):
    path = tmp_path / "a"
    path.write_bytes(content)
    assert error_of(path).startswith(
        f"{path}: not a TFRecord file{kind}; record 0 at offset 0 begins with length "
    )


def test_a_missing_file_and_a_folder_are_named(tmp_path):
    assert error_of(tmp_path / "no") == f"{tmp_path}/no: cannot be read: No such file or directory"
    assert error_of(tmp_path) == f"{tmp_path}: cannot be read: Is a directory"


def test_memory_stays_with_the_greatest_record(tfrecord):
    path = tfrecord("a.gz", [bytes(100_000)] * 400)
    tracemalloc.start()
    assert sum(1 for _ in read_records(path)) == 400
    assert tracemalloc.get_traced_memory()[1] < 8 * CHUNK_BYTES
    tracemalloc.stop()
