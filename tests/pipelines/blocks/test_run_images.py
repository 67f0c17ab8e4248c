from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf
from row_files import example, write_shards

from penstock.components.errors import DataError
from penstock.components.trainer.input.options import ImageInputOptions
from penstock.components.trainer.options import TrainOptions
from penstock.pipelines.blocks.preprocessing import image_classes
from penstock.pipelines.blocks.run_images import _labels, class_texts, train_images
from tests.components.trainer.conftest import transform_output


class Transform:
    """The part of a `TFTransformOutput` that `class_texts` needs."""

    def __init__(self, *entries):
        self.entries = entries

    def vocabulary_by_name(self, name):
        assert name == "classes"
        return [entry.encode() for entry in self.entries]


def test_class_texts_are_ordered_by_number_with_empty_gaps():
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
def test_class_texts_of_wrong_numbers_are_refused(entries, message):
    with pytest.raises(DataError, match=message):
        class_texts(Transform(*entries))


def test_class_weights_count_labels_without_decoding_images(tmp_path):
    named = {"image/encoded": [b"no image"]}
    rows = [example(**{"image/class/label": [label]}, **named) for label in (1, 0, 0)]
    folder = write_shards(tmp_path, rows, shards=1)
    files = SimpleNamespace(train_files=[f"{folder}/Split-train/*"])
    batches = list(_labels(files, lambda raw: raw[:, None], "image/class/label"))
    assert [batch.numpy().tolist() for batch in batches] == [[[1], [0], [0]]]


@pytest.mark.slow
def test_train_images_on_a_tfds_dataset_by_its_own_names(tmp_path):
    import tensorflow_datasets as tfds

    from penstock.pipelines.blocks.config import ImageConfig, ImageModelOptions
    from penstock.pipelines.blocks.models import image_model
    from penstock.pipelines.blocks.training_options import training_options

    named = {"image": "image", "label": "label"}
    rows = [
        {"image": np.full((8, 8, 3), (40, 200)[i % 2], np.uint8), "label": i % 2} for i in range(64)
    ]
    features = {
        "image": tfds.features.Image(shape=(8, 8, 3)),
        "label": tfds.features.ClassLabel(names=["dark", "light"]),
    }
    tfds.dataset_builders.store_as_tfds_dataset(
        name="shades", version="1.0.0", features=tfds.features.FeaturesDict(features),
        data_dir=str(tmp_path), split_datasets={"train": list(enumerate(rows))},
    )  # fmt: skip
    spec = {"image": tf.io.FixedLenFeature([1], tf.string),
            "label": tf.io.FixedLenFeature([1], tf.int64)}  # fmt: skip
    raw = [example(image=[b"-"], label=[row["label"]]) for row in rows]
    transform_output(lambda i: image_classes(i, **named), spec, raw, tmp_path)
    config = ImageConfig(
        input=ImageInputOptions(batch_size=16, height=8, width=8, channels=3, seed=1),
        train=TrainOptions(max_steps=60),
        model=ImageModelOptions(filters=(4,), hidden_units=8, dropout=0.0, learning_rate=0.01),
    )
    files = [str(tmp_path / "shades/1.0.0/*.tfrecord*")]
    fn_args = SimpleNamespace(
        custom_config=training_options(config, "penstock.pipelines.digits.model.run_fn"),
        train_files=files,
        eval_files=files,
        transform_graph_path=str(tmp_path / "graph"),
        model_run_dir=str(tmp_path / "run"),
        serving_model_dir=str(tmp_path / "model"),
        base_model=None,
        hyperparameters=None,
    )
    train_images(fn_args, image_model, **named)

    model = tf.saved_model.load(fn_args.serving_model_dir)
    encoded = [tf.io.encode_png(rows[i]["image"]).numpy() for i in (0, 1)]
    served = model.signatures["serve_images"](encoded=tf.constant(encoded))
    assert served["text"].numpy().tolist() == [b"0", b"1"]
    found = model.signatures["serving_default"](tf.constant([example(image=[encoded[1]])]))
    assert np.argmax(next(iter(found.values()))) == 1
