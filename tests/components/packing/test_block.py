import math

import numpy as np
import pyarrow as pa
import pytest

from penstock.components.doctor.verify import verify
from penstock.components.errors import DataError
from penstock.components.packing.block import (
    Block,
    block_rows,
    column_values,
    decode_block,
    encode_block,
    encode_values,
    is_packed,
)
from penstock.components.packing.layout import PackedColumn, PackedLayout
from penstock.components.packing.sections import BlockMaker
from penstock.components.tfrecord.manifest import Manifest, RowAccount, write_manifest
from penstock.components.tfrecord.writer import ShardWriter, frame_records

LAYOUT = PackedLayout(
    (
        PackedColumn("id", "INT", "int64", (1,)),
        PackedColumn("x", "FLOAT", "float32", (2, 2)),
        PackedColumn("image", "BYTES", "uint8", (3, 5, 3)),
        PackedColumn("name", "BYTES", "cell", (1,)),
        PackedColumn("list", "INT", "list"),
    ),
    block_rows=4,
    seed=0,
)


def block(rows=3, first=0):
    numbers = [b"", np.array([7, -8], "<i8").tobytes()]
    return Block(
        rows,
        {
            "int64": np.arange(first, first + rows).reshape(rows, 1),
            "float32": np.arange(rows * 4, dtype=np.float32).reshape(rows, 4),
            "uint8:image": np.full((rows, 45), 9, np.uint8),
            "cell": np.array([[0, 2], [1, 3], [0, 2], [1, 3]], np.int32)[:rows],
        },
        pa.array([b"a", b"b\n\x00", *numbers], pa.binary()),
    )


def test_a_block_comes_back_as_it_was():
    payload = encode_block(block(), LAYOUT)
    values = column_values(decode_block(payload, LAYOUT), LAYOUT)
    assert list(values) == ["id", "x", "image", "name", "list"]
    assert values["id"].tolist() == [[0], [1], [2]]
    assert values["x"][2].tolist() == [[8.0, 9.0], [10.0, 11.0]]
    assert values["image"].shape == (3, 3, 5, 3)
    assert np.unique(values["image"]).tolist() == [9]
    assert values["name"].tolist() == [[b"a"], [b"b\n\x00"], [b"a"]]
    assert [v.tolist() for v in values["list"]] == [[], [7, -8], []]
    assert is_packed(payload)
    assert block_rows(payload) == 3


def test_the_layout_on_disk():
    """What any reader may count on, in numbers."""
    payload = encode_block(block(), LAYOUT)
    assert payload[:8] == b"\x07PNSTKP1"
    assert payload[8:16] == (3).to_bytes(8, "little")
    assert payload[24:52] == bytes(28)
    # The frame's 12 bytes make these 64, 128, 4096 and 4288: multiples of 64, images of 4,096.
    assert [int(n) for n in LAYOUT.section_offsets(3)] == [52, 116, 4084, 4276, 4300]
    assert payload[52:76] == np.arange(3, dtype="<i8").tobytes()
    assert payload[116:164] == np.arange(12, dtype="<f4").tobytes()
    assert payload[4084 : 4084 + 45] == bytes([9]) * 45
    assert payload[4300 : 4300 + 4] == encode_values(block().dictionary)[:4]
    assert (12 + len(payload) + 4) % 4096 == 0


@pytest.mark.parametrize(
    ("shape", "row_bytes", "run_bytes"),
    [
        ((28, 28, 1), 784, 16),
        ((32, 32, 3), 3072, 1024),
        ((224, 224, 3), 150_528, 1024),
        ((299, 299, 3), 270_336, 4096),
    ],
)
def test_images_are_padded_to_long_runs(shape, row_bytes, run_bytes):
    layout = PackedLayout((PackedColumn("i", "BYTES", "uint8", shape),), 1, 0)
    (section,) = layout.sections
    assert section.row_bytes == row_bytes
    assert math.gcd(section.alignment, section.row_bytes) == run_bytes


def test_the_layout_survives_the_manifest():
    assert PackedLayout.from_dict(LAYOUT.to_dict(), "m") == LAYOUT
    with pytest.raises(DataError) as error:
        PackedLayout.from_dict({**LAYOUT.to_dict(), "version": 9}, "m")
    assert str(error.value) == (
        "m: packed records of version 9, this Penstock reads 1 and 2; pack again or upgrade"
    )
    with pytest.raises(DataError, match="m: damaged description of packed records"):
        PackedLayout.from_dict({"version": 1, "columns": [{}]}, "m")


def test_what_is_no_block_or_does_not_fit_is_refused():
    payload = encode_block(block(), LAYOUT)
    other = PackedLayout(LAYOUT.columns[:1], block_rows=2, seed=0)
    for data, layout, text in [
        (b"\x0a\x00", LAYOUT, r"not a block of packed rows, it begins with b'\n\x00'"),
        (
            payload,
            other,
            "a block of 3 rows in 8,176 bytes does not fit the layout: 2 rows at most, and 120 "
            "bytes for these",
        ),
        (payload[:4290], LAYOUT, "a block of 3 rows in 4,290 bytes does not fit the layout: "),
    ]:
        with pytest.raises(DataError) as error:
            decode_block(data, layout)
        assert str(error.value).startswith(text)


def test_a_cell_without_a_value_is_refused():
    wrong = block()
    wrong.sections["cell"][0, 0] = 4
    with pytest.raises(DataError) as error:
        decode_block(encode_block(wrong, LAYOUT), LAYOUT)
    assert str(error.value) == ("cells are numbered 0..4, but the block's dictionary has 4 values")


WORDS = [b"one", b"", b"three" * 50]


def plain_block():
    """As `block()`, with the column `name` plain."""
    made = block()
    return Block(3, made.sections, made.dictionary, {0: pa.array(WORDS, pa.binary())})


def test_plain_texts_come_back_as_they_were():
    payload = encode_block(plain_block(), LAYOUT)
    values = column_values(decode_block(payload, LAYOUT), LAYOUT)
    assert values["name"].ravel().tolist() == WORDS
    assert [v.tolist() for v in values["list"]] == [[], [7, -8], []]


def test_the_layout_of_plain_texts_on_disk():
    """The cells of a plain slot are ends; its texts follow the dictionary as in an Example."""
    payload = encode_block(plain_block(), LAYOUT)
    dictionary = len(encode_values(block().dictionary))
    assert payload[16:32] == dictionary.to_bytes(8, "little") + (1).to_bytes(8, "little")
    cells = np.frombuffer(payload, "<i4", 6, 4276).reshape(3, 2)
    assert cells[:, 0].tolist() == [5, 7, 7 + 253]
    begin = 4300 + dictionary
    assert payload[begin : begin + 4] == bytes(4)  # the first slot is the plain one
    assert payload[begin + 4 : begin + 17] == b"\n\x03one\n\x00\n\xfa\x01three"[:13]


def test_plain_texts_that_overlap_or_end_outside_are_refused():
    payload = bytearray(encode_block(plain_block(), LAYOUT))
    payload[4276:4280] = (9).to_bytes(4, "little")
    with pytest.raises(DataError, match="slot 0 overlap"):
        decode_block(bytes(payload), LAYOUT)
    payload[4276 + 16 : 4276 + 20] = (1 << 20).to_bytes(4, "little")
    with pytest.raises(DataError, match="in a block of 8,176"):
        decode_block(bytes(payload), LAYOUT)


def test_blocks_of_version_1_are_read():
    assert PackedLayout.from_dict({**LAYOUT.to_dict(), "version": 1}, "m") == LAYOUT


@pytest.mark.parametrize(("distinct", "is_plain"), [(3, True), (2, False)])
def test_a_slot_is_plain_if_more_than_half_of_its_values_are_distinct(distinct, is_plain):
    layout = PackedLayout((PackedColumn("s", "BYTES", "cell", (2,)),), 4, 0)
    rows = [[b"%d" % (row % distinct), b"same"] for row in range(4)]
    batch = pa.RecordBatch.from_arrays([pa.array(rows, pa.large_list(pa.large_binary()))], ["s"])
    made = BlockMaker(layout, {}, {}).block(batch)
    assert list(made.plain) == [0] * is_plain
    found = decode_block(encode_block(made, layout), layout)
    assert column_values(found, layout)["s"].tolist() == rows


def write(root, blocks, rows):
    name = "Split-train/data_tfrecord-00000-of-00001"
    with ShardWriter(root, name) as writer:
        for data in blocks:
            writer.write(frame_records(pa.array([data], pa.binary())))
        shard = writer.finish()
    shards = (type(shard)(shard.file, rows, shard.bytes, shard.sha256),)
    account = RowAccount(read=rows, written={"train": rows})
    packed = LAYOUT.to_dict()
    write_manifest(
        root, Manifest({"train": shards}, (), "", "examples", "", 1, account, packed=packed)
    )
    return f"{root}/{name}"


def test_verify_counts_the_rows_of_blocks(tmp_path):
    path = write(tmp_path, [encode_block(block(4), LAYOUT), encode_block(block(3), LAYOUT)], 7)
    report = verify(str(tmp_path))
    assert (report.faults, report.records) == ((), 2)
    path = write(tmp_path, [encode_block(block(4), LAYOUT)], 7)
    assert verify(str(tmp_path)).faults == (
        f"{path}: 4 rows, the manifest says 7; it was cut at the end of a record",
    )


def test_verify_names_a_payload_that_is_no_block(tmp_path):
    path = write(tmp_path, [encode_block(block(4), LAYOUT), b"\x0a\x00"], 5)
    assert verify(str(tmp_path)).faults == (
        f"{path}: record 1 at offset 8192: not a block of packed rows, it begins with "
        r"b'\n\x00' (1 of 2 records are so)",
    )


def test_verify_misses_a_vocabulary(tmp_path):
    column = PackedColumn("kind", "BYTES", "int32", (1,), vocabulary="vocabulary/kind.txt")
    layout = PackedLayout((column,), 4, 0)
    path = write(tmp_path, [], 0)
    account = RowAccount(read=0, written={"train": 0})
    manifest = Manifest({"train": ()}, (), "", "examples", "", 1, account, packed=layout.to_dict())
    write_manifest(tmp_path, manifest)
    assert verify(str(tmp_path)).faults == (
        f"{tmp_path}/vocabulary/kind.txt: the vocabulary of column 'kind' is missing",
        f"{path}: not listed in the manifest, but readers would take it for a shard; remove it",
    )
