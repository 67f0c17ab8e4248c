import base64
import json

import numpy as np
import pytest
import tensorflow as tf
from row_files import example
from tensorflow_model_analysis import constants
from tensorflow_model_analysis.proto import config_pb2

from penstock.components.evaluator import ERROR_ANALYSIS_NAME
from penstock.components.evaluator.error_analysis import ErrorAnalysis

CONFIG = config_pb2.EvalConfig(model_specs=[config_pb2.ModelSpec(label_key="y")])


def record(x, unused, y):
    return example(x=[float(x)], unused=[float(unused)], y=[float(y)])


def extracts(records, predict):
    """TFMA's extracts: the label is the feature `y`, and the prediction is `predict(x)`."""
    found = [tf.train.Example.FromString(r).features.feature for r in records]
    x, y = (np.array([f[n].float_list.value[0] for f in found], np.float32) for n in ("x", "y"))
    return {
        constants.INPUT_KEY: np.array(records, object),
        constants.LABELS_KEY: y[:, None],
        constants.PREDICTIONS_KEY: predict(x),
    }


def look_at(rows, predict, folder):
    look = ErrorAnalysis(CONFIG)
    records = [record(*row) for row in rows]
    for part in filter(None, (records[:2], records[2:150], records[150:])):
        of_all = np.arange(len(part))
        look.add(extracts(part, predict), of_all, np.zeros_like(of_all))
    look.write(str(folder), [()], lambda shuffled: extracts(shuffled, predict))
    found = json.loads((folder / ERROR_ANALYSIS_NAME).read_text())
    assert found["sampled"] == len(rows)
    return found["targets"]["y"]


def test_error_analysis_of_a_regression_has_worst_row_and_importance(tmp_path):
    rows = [(i, -i, 2 * i + (50 if i == 7 else 0)) for i in range(40)]
    found = look_at(rows, lambda x: 2 * x[:, None], tmp_path)
    assert found["task"] == "regression"
    assert found["labels"] is None
    # The standard error of the mean of 40 squared errors: one is 2500, and the others are 0.
    assert found["squared_errors"] == {
        "overall": pytest.approx(2500 * (39 / 40**2) ** 0.5 / 40**0.5)
    }
    [wrong] = found["most_wrong"]  # the other rows are right
    assert (wrong["label"], wrong["prediction"]) == (64, [14])
    kept = tf.train.Example.FromString(base64.b64decode(wrong["record"]))
    assert kept == tf.train.Example.FromString(record(*rows[7]))
    assert sorted(zip(*found["sample"], strict=True))[:2] == [(0, 0), (2, 2)]
    assert found["importance"].keys() == {"x", "unused"}  # the label `y` is not shuffled
    assert found["importance"]["unused"] == [0, 0]
    mean, error = found["importance"]["x"]
    assert 15 < mean < 35  # the mean of |2a - 2b| is 26.7 for random a and b below 40
    assert 1 < error < 6
    assert found["against"].keys() == {"x", "unused"}
    assert found["against"]["x"][0] == {
        "name": [0, 4], "rows": 5, "label": 4, "prediction": 4
    }  # fmt: skip
    assert found["correlations"]["x"]["unused"] == pytest.approx(-1)
    assert found["correlations"]["y"]["x"] > 0.9


def test_importance_of_an_unused_feature_ignores_rounding(tmp_path):
    passes = iter(range(1000))

    def predict(x):
        return (2 * x * np.float32(1 + 1e-7 * (next(passes) % 3)))[:, None]

    rows = [(i + 1, -i, i) for i in range(40)]
    assert look_at(rows, predict, tmp_path)["importance"]["unused"] == [0, 0]


@pytest.mark.parametrize(
    ("rows", "predict", "task", "labels", "wrong"),
    [
        (
            [(0.25, 1, 0), (0.75, 2, 0), (0.5, 3, 1)],
            lambda x: x[:, None],
            "binary",
            {"0": 2, "1": 1},
            [(0, [0.75]), (1, [0.5]), (0, [0.25])],
        ),
        (  # the error is the highest prediction minus the prediction of the label
            [(0.1, 1, 0), (0.2, 2, 1), (0.3, 3, 2)],
            lambda x: np.stack([x, 0.5 - x, x * 0 + 0.5], axis=1),
            "classes",
            {"0": 1, "1": 1, "2": 1},
            [(0, [0.1, 0.4, 0.5]), (1, [0.2, 0.3, 0.5])],
        ),
        (
            [(number % 150, 1, number % 150) for number in range(450)],
            lambda x: np.eye(150)[x.astype(int)],
            "classes",
            {str(number): 3 for number in range(150)},
            [],
        ),
    ],
)
def test_labels_of_classes_are_counted_and_errors_ranked(
    rows, predict, task, labels, wrong, tmp_path
):
    found = look_at(rows, predict, tmp_path)
    assert (found["task"], found["labels"]) == (task, labels)
    said = [(w["label"], np.round(w["prediction"], 3).tolist()) for w in found["most_wrong"]]
    assert said == wrong


@pytest.mark.parametrize("labels", [np.array([[b"a"]], object), np.ones((1, 3), np.float32)])
def test_error_analysis_with_labels_that_are_not_numbers_is_not_written(labels, tmp_path):
    look = ErrorAnalysis(CONFIG)
    found = {**extracts([record(1, 1, 1)], lambda x: x[:, None]), constants.LABELS_KEY: labels}
    look.add(found, np.zeros(1, int), np.zeros(1, int))
    look.write(str(tmp_path), [()], lambda _: {})
    assert list(tmp_path.iterdir()) == []
