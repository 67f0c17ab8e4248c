import gzip
import os

import pytest
from tensorflow.train import SequenceExample

from penstock.components.errors import DataError
from penstock.components.tfrecord.unlisted import (
    check_unlisted,
    find_damage,
    find_tfrecords,
    require_examples,
)

RECORD_BYTES = 50


def write(tfrecord, row, rows=(10, 5), suffix=""):
    names = [f"a-{i:05d}-of-{len(rows):05d}{suffix}" for i in range(len(rows))]
    return [str(tfrecord(n, map(row, range(r)))) for n, r in zip(names, rows, strict=True)]


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_records_of_whole_files_are_counted(tfrecord, row, suffix):
    assert check_unlisted(write(tfrecord, row, suffix=suffix)) == (10, 5)


def test_a_missing_member_is_named(tfrecord, row, tmp_path):
    first, second = write(tfrecord, row)
    os.remove(second)
    with pytest.raises(DataError) as caught:
        check_unlisted([first])
    assert str(caught.value) == (
        f"{tmp_path}: of the 2 shards of 'a', a-00001-of-00002 is missing; "
        "bring back the whole set, and only that"
    )


def test_a_file_of_zero_bytes_is_named(tfrecord, row):
    files = write(tfrecord, row, (10, 0))
    with pytest.raises(DataError, match="a-00001-of-00002: zero bytes; an empty shard"):
        check_unlisted(files)
    assert check_unlisted(write(tfrecord, row, (10, 0), ".gz")) == (10, 0)


@pytest.mark.parametrize("left", [1, 8, 11])
def test_a_header_that_is_cut_is_named(tfrecord, row, left):
    files = write(tfrecord, row)
    os.truncate(files[1], 4 * RECORD_BYTES + left)
    text = f"a-00001-of-00002: record 4 at offset 200: the file is cut, it has {left} of the 12"
    with pytest.raises(DataError, match=text):
        check_unlisted(files)


@pytest.mark.parametrize("cut", [1, 8, 9])
def test_a_gzip_stream_without_its_end_is_named(tfrecord, row, cut):
    files = write(tfrecord, row, suffix=".gz")
    os.truncate(files[0], os.path.getsize(files[0]) - cut)
    with pytest.raises(DataError, match=r"a-00000-of-00002\.gz: GZIP data is cut: it ends without"):
        check_unlisted(files)


def test_a_file_that_changes_is_looked_at_again(tfrecord, row):
    files = write(tfrecord, row)
    assert check_unlisted(files) == (10, 5)
    os.truncate(files[1], 4 * RECORD_BYTES)
    assert check_unlisted(files) == (10, 4)


def test_damage_is_found_by_shard_record_and_offset(tfrecord, row, tmp_path):
    files = write(tfrecord, row)
    assert find_damage(files) is None
    data = bytearray((tmp_path / "a-00001-of-00002").read_bytes())
    data[3 * RECORD_BYTES + 20] ^= 1
    (tmp_path / "a-00001-of-00002").write_bytes(gzip.compress(data))
    assert "a-00001-of-00002: record 3 at offset 150: payload of 34" in find_damage(files)


def test_sequence_examples_are_told_from_examples(row):
    require_examples(row(0), "f")
    message = SequenceExample()
    message.feature_lists.feature_list["s"].feature.add().int64_list.value.append(1)
    for context in (b"x", None):
        if context:
            message.context.feature["c"].bytes_list.value.append(context)
        with pytest.raises(DataError, match=r"^f: holds SequenceExamples, of which only "):
            require_examples(message.SerializeToString(), "f")


@pytest.fixture
def spark_output(tmp_path):
    folder = tmp_path / "spark"
    (folder / "_temporary").mkdir(parents=True)
    (folder / ".hidden").mkdir()
    for name in (
        "part-r-00001", "part-r-00000", "_SUCCESS", ".part-r-00000.crc", "._SUCCESS.crc",
        ".DS_Store", "README.md", "_temporary/part-r-00000", ".hidden/part-r-00000",
    ):  # fmt: skip
        (folder / name).touch()
    return folder


def names(paths):
    return [path.name for path in paths]


def test_a_folder_gives_its_tfrecords_and_says_what_it_passed_over(spark_output):
    found = find_tfrecords(str(spark_output))
    assert names(found.files) == ["part-r-00000", "part-r-00001"]
    assert names(found.skipped) == [
        ".DS_Store", "._SUCCESS.crc", ".part-r-00000.crc", "README.md", "_SUCCESS"
    ]  # fmt: skip


def test_manifests_are_not_passed_over_but_read_elsewhere(artifact):
    assert (artifact / "manifest.json").exists()
    assert find_tfrecords(str(artifact)).skipped == ()


def test_subfolders_are_entered(artifact):
    assert names(find_tfrecords(str(artifact)).files) == [
        "data_tfrecord-00000-of-00001", "data_tfrecord-00000-of-00002",
        "data_tfrecord-00001-of-00002",
    ]  # fmt: skip


def test_a_glob_passes_over_what_a_folder_does(spark_output):
    found = find_tfrecords(str(spark_output / "*"))
    assert names(found.files) == ["part-r-00000", "part-r-00001"]
    assert names(found.skipped) == ["README.md", "_SUCCESS"]


def test_rejected_rows_beside_shards_are_passed_over(tmp_path):
    (tmp_path / "Split-train").mkdir()
    (tmp_path / "quarantine").mkdir()
    (tmp_path / "Split-train/data_tfrecord-00000-of-00001").touch()
    (tmp_path / "quarantine/rejected-00000.jsonl").touch()
    found = find_tfrecords(str(tmp_path))
    assert names(found.files) == ["data_tfrecord-00000-of-00001"]
    assert names(found.skipped) == ["rejected-00000.jsonl"]


def test_a_named_file_is_taken_whatever_it_is_called(spark_output):
    assert names(find_tfrecords(str(spark_output / "_SUCCESS")).files) == ["_SUCCESS"]


def test_what_beam_leaves_of_a_try_is_no_file(tmp_path):
    for name in ("shard-00000-of-00001", "beam-temp-shard-71c0/8d48"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    assert names(find_tfrecords(str(tmp_path)).files) == ["shard-00000-of-00001"]


def test_a_file_whose_name_looks_like_a_pattern_is_a_file(tmp_path):
    (tmp_path / "a[1]").touch()
    assert names(find_tfrecords(str(tmp_path / "a[1]")).files) == ["a[1]"]


def test_nothing_there_is_an_error(tmp_path):
    with pytest.raises(DataError) as caught:
        find_tfrecords(f"{tmp_path}/no-*")
    assert str(caught.value) == (
        f"{tmp_path}/no-*: no such file or folder, and no file matches it as a pattern"
    )
    (tmp_path / "_SUCCESS").touch()
    with pytest.raises(DataError) as caught:
        find_tfrecords(str(tmp_path))
    assert str(caught.value) == (f"{tmp_path}: no TFRecord file in there (passed over: _SUCCESS)")


def test_a_remote_path_says_what_to_do():
    with pytest.raises(DataError) as caught:
        find_tfrecords("gs://bucket/shards")
    assert str(caught.value) == (
        "gs://bucket/shards: remote files are not read here; mount or copy them first"
    )
