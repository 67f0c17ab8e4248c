from types import SimpleNamespace

import pytest
import tensorflow as tf

from penstock.components.errors import DataError
from penstock.pipelines.blocks.run_images import _labels, class_texts


class Transform:
    """As much of a `TFTransformOutput` as the classes need."""

    def __init__(self, *entries):
        self.entries = entries

    def vocabulary_by_name(self, name):
        assert name == "classes"
        return [entry.encode() for entry in self.entries]


def test_classes_are_in_the_order_of_their_numbers_gaps_empty():
    assert class_texts(Transform("3\tdog", "1\tcat", "10\tblack hen")) == [
        *("", "cat", "", "dog", "", "", "", "", "", "", "black hen")
    ]


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        (("1\tcat", "1\tdog"), "class 1 is called 'cat' and 'dog'; correct the labels"),
        (("-1\tcat", "1\tdog"), "the 2 classes have numbers from -1 to 1; number them from 0 on"),
        (("0\tcat", "20261121\tdog"), "the 2 classes have numbers from 0 to 20261121"),
    ],
)
def test_numbers_that_are_none_of_classes_are_refused(entries, message):
    with pytest.raises(DataError, match=message):
        class_texts(Transform(*entries))


def test_labels_are_counted_without_decoding_images(tmp_path):
    with tf.io.TFRecordWriter(str(tmp_path / "data_tfrecord-00000-of-00001")) as writer:
        for label in (1, 0, 0):
            example = tf.train.Example()
            example.features.feature["image/class/label"].int64_list.value.append(label)
            example.features.feature["image/encoded"].bytes_list.value.append(b"no image")
            writer.write(example.SerializeToString())
    files = SimpleNamespace(train_files=[str(tmp_path / "data_tfrecord-*")])
    batches = list(_labels(files, lambda raw: raw[:, None]))
    assert [batch.numpy().tolist() for batch in batches] == [[[1], [0], [0]]]
