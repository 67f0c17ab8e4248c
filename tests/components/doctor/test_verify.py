import json
import shutil

import pytest
from row_files import sequence_example

from penstock.components.doctor.read_file import MAX_NAMED_RECORDS
from penstock.components.doctor.verify import verify
from penstock.components.errors import DataError

NOTE = (
    "no manifest.json: an uncompressed file cut exactly between two records, or a file removed "
    "whole, cannot be seen; if Penstock wrote this, it was never finished"
)
SHARD = "Split-train/data_tfrecord-00001-of-00002"
RECORD_BYTES = 50  # a payload of 34 bytes and a frame of 16


def change(path, position, by=1):
    data = bytearray(path.read_bytes())
    data[position] ^= by
    path.write_bytes(data)


def edit_manifest(artifact, edit):
    path = artifact / "manifest.json"
    manifest = json.loads(path.read_text())
    edit(manifest)
    path.write_text(json.dumps(manifest))


def test_a_sound_artifact_has_no_faults(artifact):
    calls = []
    report = verify(str(artifact), on_progress=lambda done, total: calls.append((done, total)))
    assert calls[-1] == (25 * RECORD_BYTES, 25 * RECORD_BYTES)
    assert report.faults == report.notes == ()
    assert report.manifest == f"{artifact}/manifest.json"
    assert [file.records for file in report.files] == [10, 10, 5]
    assert report.records == 25
    assert report.bytes == 25 * RECORD_BYTES
    report.raise_faults()


def test_a_shard_of_zero_bytes_is_right_where_the_manifest_says_so(artifact):
    empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    (artifact / "Split-eval/data_tfrecord-00000-of-00001").write_bytes(b"")

    def edit(manifest):
        manifest["splits"]["eval"][0].update(rows=0, bytes=0, sha256=empty)
        manifest["account"].update(read=20, written={"train": 20, "eval": 0})

    edit_manifest(artifact, edit)
    assert verify(str(artifact)).faults == ()


def test_all_faults_are_listed(artifact):
    train = artifact / "Split-train"
    change(train / "data_tfrecord-00000-of-00002", 20)
    change(train / "data_tfrecord-00000-of-00002", 4 * RECORD_BYTES + 20)
    (train / "data_tfrecord-00001-of-00002").unlink()
    (artifact / "Split-eval/data_tfrecord-00000-of-00001").write_bytes(b"no TFRecord at all")
    report = verify(str(artifact))
    with pytest.raises(DataError) as caught:
        report.raise_faults()
    starts = [
        f"{train}/data_tfrecord-00001-of-00002: shard is missing",
        f"{train}/data_tfrecord-00000-of-00002: record 0 at offset 0: payload of 34",
        f"{train}/data_tfrecord-00000-of-00002: record 4 at offset 200: payload of 34",
        f"{train}/data_tfrecord-00000-of-00002: sha256",
        f"{artifact}/Split-eval/data_tfrecord-00000-of-00001: not a TFRecord file, it looks like t",
        f"{artifact}/Split-eval/data_tfrecord-00000-of-00001: 18 bytes, the manifest says 250",
    ]
    for line, start in zip(str(caught.value).splitlines(), starts, strict=True):
        assert line.startswith(start)


def test_damaged_records_beyond_a_hundred_are_counted(tfrecord, row):
    path = tfrecord("a", map(row, range(MAX_NAMED_RECORDS + 7)))
    for i in range(MAX_NAMED_RECORDS + 7):
        change(path, i * RECORD_BYTES + 20)
    report = verify(str(path))
    assert len(report.faults) == MAX_NAMED_RECORDS + 1
    assert report.faults[-1] == f"{path}: 7 more records have damaged payloads"
    assert report.records == MAX_NAMED_RECORDS + 7


def test_leftovers_of_another_run_are_named(artifact):
    old = artifact / "Split-train/data_tfrecord-00002-of-00003"
    shutil.copy(artifact / SHARD, old)
    (artifact / "Split-old").mkdir()
    note = artifact / "Split-old/_SUCCESS"
    note.touch()
    (artifact / "Split-train/.DS_Store").touch()  # readers ignore hidden files
    assert verify(str(artifact)).faults == tuple(
        f"{file}: not listed in the manifest, but readers would take it for a shard; remove it"
        for file in sorted([old, note])
    )


@pytest.mark.parametrize(
    ("edit", "fault"),
    [
        (lambda m: m.update(compression="GZIP"), f"{SHARD}: compression none, the manifest says G"),
        (
            lambda m: m["account"].update(read=24, written={"train": 20, "eval": 4}),
            "manifest.json: split 'eval': the shards are listed with 5 rows, the account says 4 we",
        ),
        (
            lambda m: m.update(quarantine="rejected"),
            "manifest.json: the rejected rows that it names, rejected, are missing",
        ),
    ],
)
def test_a_manifest_that_says_otherwise_is_found(artifact, edit, fault):
    edit_manifest(artifact, edit)
    assert f"{artifact}/{fault}" in "\n".join(verify(str(artifact)).faults)


def test_a_manifest_that_does_not_parse_is_a_fault_and_the_files_are_still_read(artifact):
    (artifact / "manifest.json").write_text("{")
    change(artifact / SHARD, 20)
    manifest, crc = verify(str(artifact)).faults
    assert manifest.startswith(f"{artifact}/manifest.json: not a Penstock manifest (")
    assert crc.startswith(f"{artifact}/{SHARD}: record 0 at offset 0: payload of 34 bytes")


def test_a_split_and_a_shard_are_held_against_the_manifest_above_them(artifact):
    path = artifact / SHARD
    path.write_bytes(path.read_bytes()[:RECORD_BYTES])
    faults = (
        f"{path}: 1 rows, the manifest says 10; it was cut at the end of a record",
        f"{path}: 50 bytes, the manifest says 500",
    )
    assert verify(str(path)).faults == faults
    assert verify(str(path.parent)).faults == faults
    assert verify(str(artifact / "Split-eval")).faults == ()
    assert [file.records for file in verify(str(artifact / "Split-eval")).files] == [5]


def test_without_a_manifest_a_cut_at_a_boundary_cannot_be_seen_and_it_says_so(artifact):
    (artifact / "manifest.json").unlink()
    (artifact / SHARD).write_bytes((artifact / SHARD).read_bytes()[:RECORD_BYTES])
    report = verify(str(artifact))
    assert report.faults == ()
    assert report.manifest is None
    assert report.notes == (NOTE,)


def test_members_are_named_whatever_their_endings_and_counts(tfrecord, row, tmp_path):
    tfrecord("s/mnist-train.tfrecord-00000-of-00003", [row(0)])
    tfrecord("s/images-00001-of-99999999.tfrecord", [row(0)])
    images, mnist = verify(str(tmp_path / "s")).faults
    assert images.startswith(
        f"{tmp_path}/s: of the 99999999 shards of 'images', images-00000000-of-99999999.tfrecord, "
        "images-00000001-of-99999999.tfrecord, "
    )
    assert images.endswith("images-00000009-of-99999999.tfrecord and more are missing")
    assert mnist == (
        f"{tmp_path}/s: of the 3 shards of 'mnist-train.tfrecord', "
        "mnist-train.tfrecord-00001-of-00003, mnist-train.tfrecord-00002-of-00003 are missing"
    )


def test_a_gzip_shard_without_rows_is_sound(tfrecord):
    assert verify(str(tfrecord("a.gz", []))).faults == ()


@pytest.mark.parametrize("before", [1, 150])  # from record 100 on, 1 in 100 is parsed
def test_payloads_that_are_no_example_are_noted_and_counted(tfrecord, row, before):
    path = tfrecord("a", [row(0)] * before + [b"hello world", row(1), b"hello world"])
    report = verify(str(path))
    assert report.faults == ()
    assert report.notes == (
        NOTE,
        f"{path}: record {before} at offset {50 * before}: payload is neither a tf.train.Example "
        "nor a SequenceExample, it begins with b'hello world' "
        f"(2 of {before + 3} records are so)",
    )


def test_every_flipped_byte_of_a_plain_shard_is_found(tfrecord, row):
    path = tfrecord("a", map(row, range(2)))
    data = path.read_bytes()
    for position in range(len(data)):
        damaged = bytearray(data)
        damaged[position] ^= 0x40
        path.write_bytes(damaged)
        assert verify(str(path)).faults, position


def test_a_step_of_another_kind_is_named(tfrecord):
    good = sequence_example(tokens=[[1, 2], None, [3]])
    path = tfrecord("a", [good, good, sequence_example(tokens=[[1], [b"x"]]), good])
    offset = 2 * (len(good) + 16)
    assert verify(str(path)).faults == (
        f"{path}: record 2 at offset {offset}: feature list 'tokens' has a step of BYTES, "
        "expected INT as in earlier steps; write the record again (1 of 4 records are so)",
    )
    path.unlink()
    tfrecord("a", [good])
    other = tfrecord("b", [sequence_example(tokens=[[0.5]])])
    [fault] = verify(str(path.parent)).faults
    assert fault.startswith(
        f"{other}: record 0 at offset 0: feature list 'tokens' has a step of FLOAT"
    )


def test_a_sequence_example_among_examples_is_named(tfrecord, row):
    sequence = sequence_example(s=[[1]])
    path = tfrecord("a", [row(0), row(1), sequence, row(2)])
    assert verify(str(path)).faults == (
        f"{path}: record 2 at offset 100: a SequenceExample among Examples (1 of 4 records are so)",
    )
    assert verify(str(tfrecord("b", [row(0), sequence, sequence]))).faults == ()
