import re

import numpy as np
import pytest
import tensorflow as tf

from penstock.components.errors import DataError, UsageError
from penstock.components.trainer.input import common
from penstock.components.trainer.input import rows as rows_module
from penstock.components.trainer.input.input import Input
from penstock.components.trainer.input.options import InputOptions
from tests.components.trainer.conftest import flat, rows_of


def test_windows_smaller_than_the_data_mix_all_files(shards, data):
    options = InputOptions(batch_size=8, shuffle_window_rows=16, interleave_files=4, seed=7)
    rows = flat(rows_of(Input.rows(shards, data.spec, options=options).train(), 13))[:103]
    assert sorted(rows) == list(range(103))
    # The first window has rows of all three shards.
    assert {(row >= 37) + (row >= 90) for row in rows[:16]} == {0, 1, 2}


def test_small_batches_are_parsed_together_and_stay_the_same(shards, data, monkeypatch):
    sizes = []
    parser = rows_module.parser

    def noted(*args):
        parse = parser(*args)
        return lambda records: (sizes.append(records.shape[0]), parse(records))[1]

    monkeypatch.setattr(rows_module, "parser", noted)

    def batches(rows_together):
        sizes.clear()
        monkeypatch.setattr(rows_module, "_PARSED_ROWS", rows_together)
        options = InputOptions(batch_size=10, seed=1)
        found = Input.rows(shards, data.spec, options=options, label="y").train().take(25)
        assert found.element_spec[0]["row"].shape == (10, 1)
        return [(features["row"].numpy().tolist(), y.numpy().tolist()) for features, y in found]

    alone = batches(10)
    assert sizes[1:] == [10]  # before these batches, one record is parsed as a check
    assert batches(4096) == alone
    assert sizes[1:] == [100]


@pytest.mark.parametrize("cache", ["none", "memory"])
def test_fewer_rows_than_a_batch_train(tmp_path, data, cache):
    data.write_shards(tmp_path, (1, 2))
    options = InputOptions(batch_size=7, cache=cache)
    source = [str(tmp_path / "Split-train" / "*")]
    rows = flat(rows_of(Input.rows(source, data.spec, options=options).train(), 3))
    assert [sorted(rows[i : i + 3]) for i in range(0, 21, 3)] == [[0, 1, 2]] * 7


def test_the_label_and_defaults_come_apart_from_the_features(shards, data):
    options = InputOptions(batch_size=103)
    features, label = next(iter(Input.rows(shards, data.spec, options=options, label="y").eval()))
    order = features["row"].numpy().ravel()
    assert sorted(features) == ["name", "row", "x"]
    assert label.numpy().ravel().tolist() == [row % 2 for row in order]
    assert features["x"].numpy().ravel().tolist() == [row / 2 for row in order]
    assert features["name"].numpy().ravel().tolist() == [
        b"n%d" % row if row % 3 else b"" for row in order
    ]
    labelled = Input.rows(shards, data.spec, options=options, label=["y", "x"]).eval()
    rest, labels = next(iter(labelled))
    assert (sorted(rest), sorted(labels)) == (["name", "row"], ["x", "y"])
    np.testing.assert_array_equal(labels["y"], label)


def test_sparse_features_pass_through(shards, data):
    spec = {**data.spec, "name": tf.io.VarLenFeature(tf.string)}
    features = next(iter(Input.rows(shards, spec, options=InputOptions(batch_size=9)).train()))
    rows = features["row"].numpy().ravel().tolist()
    assert features["name"].values.numpy().tolist() == [b"n%d" % row for row in rows if row % 3]


def test_gzip_and_plain_files_are_read_together(tmp_path, data):
    data.write_shards(tmp_path / "a", (5,), "GZIP")
    data.write_shards(tmp_path / "b", (4,))
    source = [str(tmp_path / "a" / "*" / "*"), str(tmp_path / "b" / "*" / "*")]
    batches = rows_of(Input.rows(source, data.spec, options=InputOptions(batch_size=20)).eval())
    assert batches == [[0, 1, 2, 3, 4, 0, 1, 2, 3]]


def test_a_cache_that_does_not_fit_is_refused_with_the_numbers(shards, data, monkeypatch):
    monkeypatch.setattr(common, "free_memory_bytes", lambda: 3000)
    with pytest.raises(UsageError, match=r"103 rows of about 46 bytes take 0.00 GiB.*use cache"):
        Input.rows(shards, data.spec, options=InputOptions(batch_size=4, cache="memory")).train()


@pytest.mark.parametrize(
    ("options", "arguments", "error", "message"),
    [
        ({}, {"label": "z"}, UsageError, "label 'z' is not a feature; there are row, x, name, y"),
        (
            {"cache": "memory"},
            {"spec": {"row": tf.io.VarLenFeature(tf.int64)}},
            UsageError,
            "cache 'memory' needs features of fixed length; row may vary",
        ),
        (
            {},
            {"spec": {"absent": tf.io.FixedLenFeature([1], tf.int64)}},
            DataError,
            "data_tfrecord-00000-of-00003: the first record does not fit the spec or schema (",
        ),
        (
            {},
            {"spec": {"row": tf.io.FixedLenFeature([1], tf.float32)}},
            DataError,
            "or schema (Key: row, Index: 0. Data types don't match. Data type: int64 but expected "
            "type: float)",
        ),
    ],
)
def test_what_does_not_fit_is_said_at_once(shards, data, options, arguments, error, message):
    options = InputOptions(**{"batch_size": 4, **options})
    arguments = {"spec": data.spec, "options": options, **arguments}
    with pytest.raises(error, match=re.escape(message)):
        Input.rows(shards, **arguments).train()


@pytest.mark.parametrize("without_steps", [0, 99, 3000])
def test_sequence_examples_are_refused(tmp_path, data, without_steps):
    message = tf.train.SequenceExample()
    message.context.feature["x"].float_list.value.append(1.0)
    first = message.SerializeToString()
    message.feature_lists.feature_list["steps"].feature.add().int64_list.value.append(1)
    with tf.io.TFRecordWriter(str(tmp_path / "a.tfrecord")) as writer:
        for record in [first] * without_steps + [message.SerializeToString()]:
            writer.write(record)
    spec = {"steps": tf.io.VarLenFeature(tf.int64)}
    with pytest.raises(DataError, match=rf"a\.tfrecord: record {without_steps}: is a SequenceEx"):
        Input.rows([str(tmp_path / "a.tfrecord")], spec, options=InputOptions(batch_size=4)).train()
