import pytest
import tensorflow as tf

from penstock.components.errors import DataError, UsageError
from penstock.components.trainer.input.files import find_input
from penstock.components.trainer.input.input import Input
from penstock.components.trainer.input.options import InputOptions


def count_rows(source, *, split):
    return sum(find_input(source, split=split).counted())


def epoch_steps(source, batch_size):
    return Input.rows(source, {}, options=InputOptions(batch_size=batch_size)).steps_per_epoch()


def names(found):
    return [file.rsplit("/", 1)[1] for file in found.files]


def test_a_pattern_gives_its_files_in_order_and_nothing_else(tmp_path, data):
    data.write_shards(tmp_path, (1, 1))
    (tmp_path / "Split-train" / "_SUCCESS").touch()
    (tmp_path / "Split-train" / ".DS_Store").touch()
    (tmp_path / "Split-train" / "beam-temp-transformed_examples-71c0").mkdir()
    found = find_input([str(tmp_path / "Split-train" / "*")], split="train")
    assert names(found) == ["data_tfrecord-00000-of-00002", "data_tfrecord-00001-of-00002"]
    assert found.rows == 2


def test_a_manifest_decides_which_files_are_read(tmp_path, data):
    directory = data.write_examples(tmp_path / "examples", (3, 0, 2))
    (directory / "Split-train" / "stray").write_text("not a shard")
    for source in (directory, [str(directory / "Split-train" / "*")]):
        found = find_input(source, split="train")
        assert names(found) == ["data_tfrecord-00000-of-00003", "data_tfrecord-00002-of-00003"]
        assert found.rows == 5


def test_so_it_does_on_an_object_store(tmp_path, data):
    directory = data.write_examples(tmp_path / "examples", (3, 0, 2))
    tf.io.gfile.mkdir("ram://rows/Split-train")
    for file in ("manifest.json", *(f"Split-train/data_tfrecord-0000{i}-of-00003" for i in (0, 1))):
        tf.io.gfile.copy(f"{directory}/{file}", f"ram://rows/{file}", overwrite=True)
    with pytest.raises(DataError, match="data_tfrecord-00002-of-00003: shard is missing"):
        find_input(["ram://rows/Split-train/*"], split="train")


def test_several_patterns_are_read_together(tmp_path, data):
    first = data.write_examples(tmp_path / "1", (3, 2))
    second = data.write_examples(tmp_path / "2", (0, 4))
    data.write_shards(tmp_path / "3", (5,))
    patterns = [str(folder / "Split-train" / "*") for folder in (first, second, tmp_path / "3")]
    found = find_input(patterns[:2], split="train")
    assert (len(found.files), found.rows) == (3, 9)
    assert (len(find_input(patterns, split="train").files), count_rows(patterns, split="")) == (
        4,
        14,
    )


def test_what_cannot_be_found_is_named(tmp_path, data):
    with pytest.raises(DataError, match=r"nothing/\*: no such file, or nothing matches"):
        find_input([str(tmp_path / "nothing" / "*")], split="train")
    with pytest.raises(DataError, match=r"no manifest\.json"):
        find_input(tmp_path, split="train")
    with pytest.raises(DataError, match="the list of file patterns is empty"):
        find_input([], split="train")
    directory = data.write_examples(tmp_path / "examples", (3,))
    with pytest.raises(UsageError, match="no split 'eval'; it has train"):
        find_input(directory, split="eval")
    empty = data.write_examples(tmp_path / "empty", (0, 0))
    with pytest.raises(DataError, match="split 'train' has no rows"):
        find_input(empty, split="train")


def test_rows_are_counted_with_and_without_a_manifest(tmp_path, data, shards):
    assert count_rows(shards, split="train") == 103
    data.write_shards(tmp_path / "gz", (3, 4), "GZIP")
    assert count_rows([str(tmp_path / "gz" / "*" / "*.gz")], split="train") == 7
    directory = data.write_examples(tmp_path / "examples", (5, 6))
    assert count_rows(directory, split="train") == 11


def test_steps_of_an_epoch_cover_every_row(shards):
    assert epoch_steps(shards, 103) == 1
    assert epoch_steps(shards, 20) == 6
