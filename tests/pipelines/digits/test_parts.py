"""The digits pipeline's own parts, without a run."""

import numpy as np
import pytest
import tensorflow as tf
import yaml
from PIL import Image
from sklearn.datasets import load_digits

from penstock.components.errors import UsageError
from penstock.components.plain import override
from penstock.pipelines.digits.config import Config
from penstock.pipelines.digits.example_gen import write_digits


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    folder = tmp_path_factory.mktemp("digits") / "data"
    write_digits(folder)
    return folder


def test_digits_are_image_files_and_a_label_file(written):
    files = sorted((written / "images").iterdir())
    assert [file.name for file in (files[0], files[-1])] == ["0000.png", "1796.png"]
    with Image.open(files[17]) as image:
        assert (image.mode, image.size) == ("L", (8, 8))
        expected = np.round(load_digits().images[17] * 255 / 16)
        np.testing.assert_array_equal(np.asarray(image), expected)
    rows = (written / "labels.csv").read_text().splitlines()
    assert rows[0] == "file,class,text"
    assert [rows[1], rows[18], rows[-1]] == [
        "0000.png,0,zero",
        "0017.png,7,seven",
        "1796.png,8,eight",
    ]


def test_digits_are_written_once_with_equal_bytes(written, tmp_path):
    before = (written / "labels.csv").stat()
    write_digits(written)
    assert (written / "labels.csv").stat() == before
    write_digits(tmp_path / "again")
    for name in ("labels.csv", "images/0000.png", "images/1796.png"):
        assert (tmp_path / "again" / name).read_bytes() == (written / name).read_bytes()
    assert [path.name for path in tmp_path.iterdir()] == ["again"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model": {"weights": "w.h5"}}, "weights and train_base are an application's"),
        ({"model": {"application": "VGG16"}}, "VGG16 without weights would stay random"),
        ({"model": {"filters": []}}, "filters must be at least one number above 0"),
        ({"model": {"dropout": 1.0}}, "dropout must be within 0..1 and below 1, got 1.0"),
        ({"source": {"labels_file": "labels.csv"}}, "labels_file: give data as well"),
    ],
)
def test_options_that_do_not_fit_are_refused(changes, message):
    with pytest.raises(UsageError, match=message):
        override(Config(), changes)


def test_example_in_the_config_docstring_is_valid():
    from penstock.pipelines.digits import config

    lines = config.__doc__.splitlines()
    example = "\n".join(line for line in lines[lines.index("    data: cars_train") :])
    changed = override(Config(), yaml.safe_load(example))
    assert changed.model.application == "InceptionResNetV2"
    assert changed.model.augment.flip_horizontal
    assert (changed.input.height, changed.input.cache) == (299, "none")
    assert changed.source.labels_file == "cars_train_annos.mat"


def test_unknown_application_is_refused_before_the_run(tmp_path):
    from penstock.pipelines.digits.pipeline import create_pipeline

    config = override(
        Config(),
        {"root": str(tmp_path), "model": {"application": "VGG99", "train_base": True}},
    )
    with pytest.raises(UsageError, match=r"application must be one of .* got 'VGG99'"):
        create_pipeline(config)
    assert tf.io.gfile.listdir(str(tmp_path)) == []
