"""The digits pipeline's own parts, without a run."""

import json
from dataclasses import asdict

import keras
import numpy as np
import pytest
import scipy.io
import tensorflow as tf
import yaml
from PIL import Image
from sklearn.datasets import load_digits

from penstock.components.errors import DataError, UsageError
from penstock.components.trainer.images.augmentation_options import AugmentOptions
from penstock.components.trainer.input.image_options import ImageInputOptions
from penstock.components.trainer.options import TrainOptions
from penstock.pipelines.config.overrides import from_mapping, override
from penstock.pipelines.digits.config import DigitsConfig, EvaluationOptions, ModelOptions
from penstock.pipelines.digits.data import write_digits
from penstock.pipelines.digits.model import build_model
from penstock.pipelines.digits.run_fn import class_texts


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    folder = tmp_path_factory.mktemp("digits") / "data"
    write_digits(folder)
    return folder


def test_the_digits_are_files_and_labels_as_a_user_has_them(written):
    files = sorted((written / "images").iterdir())
    assert [file.name for file in (files[0], files[-1])] == ["0000.png", "1796.png"]
    with Image.open(files[17]) as image:
        assert (image.mode, image.size) == ("L", (8, 8))
        expected = np.round(load_digits().images[17] * 255 / 16)
        np.testing.assert_array_equal(np.asarray(image), expected)
    rows = scipy.io.loadmat(written / "labels.mat", squeeze_me=True)["annotations"]
    assert rows.dtype.names == ("fname", "class", "text")
    assert [tuple(row) for row in rows[[0, 17, 1796]]] == [
        ("0000.png", 0, "zero"),
        ("0017.png", 7, "seven"),
        ("1796.png", 8, "eight"),
    ]


def test_they_are_written_once_and_the_same_each_time(written, tmp_path):
    before = (written / "labels.mat").stat()
    write_digits(written)
    assert (written / "labels.mat").stat() == before
    write_digits(tmp_path / "again")
    for name in ("labels.mat", "images/0000.png", "images/1796.png"):
        assert (tmp_path / "again" / name).read_bytes() == (written / name).read_bytes()
    assert [path.name for path in tmp_path.iterdir()] == ["again"]


def test_a_folder_of_something_else_is_left_alone(tmp_path):
    (tmp_path / "data").mkdir()
    with pytest.raises(DataError, match=r"data: is there without labels\.mat; remove it"):
        write_digits(tmp_path / "data")


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


IMAGES = ImageInputOptions(batch_size=2, height=32, width=32)


def predictions(options, images=IMAGES, augment=AugmentOptions()):  # noqa: B008  # frozen
    model = build_model(options, images=images, augment=augment, classes=3)
    assert model.input["image"].dtype == "uint8"
    shape = (2, images.height, images.width, images.channels)
    batch = np.random.default_rng(0).integers(0, 256, shape).astype(np.uint8)
    return model, model({"image": batch}, training=False)


@pytest.mark.parametrize("side", [1, 8, 33])
def test_the_small_network_takes_any_size(side):
    images = ImageInputOptions(batch_size=2, height=side, width=side + 1, channels=1)
    _, output = predictions(ModelOptions(filters=(4, 8), hidden_units=0), images)
    assert output.shape == (2, 3)
    np.testing.assert_allclose(np.sum(output, axis=1), 1, atol=1e-5)


def test_a_network_of_keras_applications_is_the_base(tmp_path):
    keras.utils.set_random_seed(1)
    network = keras.applications.MobileNetV2(
        weights=None, include_top=False, input_shape=(32, 32, 3)
    )
    network.save_weights(tmp_path / "mobilenet.weights.h5")
    options = ModelOptions(
        application="MobileNetV2", weights=str(tmp_path / "mobilenet.weights.h5"), hidden_units=0
    )
    model, output = predictions(options)
    assert output.shape == (2, 3)
    # The base is frozen: only the last layer is trained, and dropout has nothing.
    assert [weight.shape for weight in model.trainable_weights] == [(1280, 3), (3,)]
    base = model.get_layer("mobilenetv2").network
    pairs = zip(network.weights, base.weights, strict=True)
    assert all(np.array_equal(ours, theirs) for ours, theirs in pairs)


def test_gray_images_go_into_an_application_too():
    images = ImageInputOptions(batch_size=2, height=32, width=32, channels=1)
    model, output = predictions(
        ModelOptions(application="MobileNetV2", train_base=True), images, AugmentOptions(shift=0.1)
    )
    assert output.shape == (2, 3)
    assert len(model.trainable_weights) > 100


@pytest.mark.parametrize(
    ("options", "changes", "message"),
    [
        (ModelOptions, {"weights": "w.h5"}, "weights and train_base are an application's"),
        (ModelOptions, {"application": "VGG16"}, "VGG16 without weights would stay random"),
        (ModelOptions, {"filters": ()}, "filters must be at least one number above 0"),
        (ModelOptions, {"dropout": 1.0}, "dropout must be within 0..1 and below 1, got 1.0"),
        (EvaluationOptions, {"min_accuracy": 2.0}, "min_accuracy must be within 0..1, got 2.0"),
    ],
)
def test_options_outside_their_range_are_refused(options, changes, message):
    with pytest.raises(UsageError, match=message):
        options(**changes)


def test_labels_without_data_are_refused():
    with pytest.raises(UsageError, match="labels_file: give data as well"):
        override(DigitsConfig(), {"source": {"labels_file": "labels.csv"}})


def test_the_options_travel_to_the_trainer_as_json():
    config = DigitsConfig()
    for value in (config.input, config.augment, config.model, config.train):
        assert from_mapping(type(value), json.loads(json.dumps(asdict(value)))) == value
    assert isinstance(config.train, TrainOptions)


def test_the_example_in_the_config_is_one():
    from penstock.pipelines.digits import config

    lines = config.__doc__.splitlines()
    example = "\n".join(line for line in lines[lines.index("    data: cars_train") :])
    changed = override(DigitsConfig(), yaml.safe_load(example))
    assert changed.model.application == "InceptionResNetV2"
    assert (changed.input.height, changed.input.cache) == (299, "none")
    assert changed.source.labels_file == "cars_train_annos.mat"


def test_an_application_that_is_none_is_refused_before_the_run(tmp_path):
    from penstock.pipelines.digits.pipeline import create_pipeline

    config = override(
        DigitsConfig(),
        {"root": str(tmp_path), "model": {"application": "VGG99", "train_base": True}},
    )
    with pytest.raises(UsageError, match=r"application must be one of .* got 'VGG99'"):
        create_pipeline(config)
    assert tf.io.gfile.listdir(str(tmp_path)) == []
