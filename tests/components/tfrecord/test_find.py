import pytest

from penstock.components.errors import DataError
from penstock.components.tfrecord.find import find_tfrecords


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
