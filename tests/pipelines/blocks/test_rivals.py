"""Linear models and boosted trees on arrays of numbers and categories."""

import numpy as np
import pytest

from penstock.pipelines.blocks.rivals import predict_rivals
from penstock.pipelines.blocks.target import Target

RNG = np.random.default_rng(0)
X = RNG.normal(size=(600, 2)).astype(np.float32)
CODES = RNG.integers(0, 400, (600, 1))
QUANTITY, YES = Target("y", "regression"), Target("y", "binary", ("no", "yes"))


@pytest.mark.parametrize(
    ("features", "y"),
    [
        ({"x": X}, 3 * X[:, 0]),
        ({"codes": CODES % 7}, (CODES % 7)[:, 0] * 2.0),
        ({"x": X, "codes": CODES % 7, "x2": X}, X[:, 0] + (CODES % 7)[:, 0]),
    ],
)
def test_numbers_and_categories_are_each_enough(features, y):
    train = {name: values[:400] for name, values in features.items()}
    rest = {name: values[400:] for name, values in features.items()}
    for predicted in predict_rivals(train, y[:400], rest, QUANTITY).values():
        assert np.square(predicted - y[400:]).mean() < 0.15 * y.var()


def test_class_without_training_rows_has_probability_0():
    colour = Target("colour", "classes", ("r", "g", "b"))
    y = (X[:, 0] > 0).astype(np.int64) * 2
    for found in predict_rivals({"x": X}, y, {"x": X[:5]}, colour).values():
        assert found.shape == (5, 3)
        assert not found[:, 1].any()


def test_class_of_one_row_is_no_error():
    colour = Target("colour", "classes", ("r", "g", "b"))
    y = (X[:, 0] > 0).astype(np.int64)
    y[7] = 2
    assert set(predict_rivals({"x": X}, y, {"x": X[:5]}, colour)) == {"linear", "trees"}


def test_more_categories_than_bins_of_trees_are_no_error():
    y = (CODES[:, 0] % 2 == 0).astype(np.int64)
    found = predict_rivals({"codes": CODES}, y, {"codes": CODES + 1}, YES)
    assert {name: p.shape for name, p in found.items()} == {
        "linear": (600, 2),
        "trees": (600, 2),
    }


@pytest.mark.parametrize(("rows", "y"), [(600, np.ones(600)), (19, np.arange(19) % 2)])
def test_labels_of_one_value_or_few_rows_have_no_rivals(rows, y):
    assert predict_rivals({"x": X[:rows]}, y, {"x": X}, YES) == {}


def test_infinite_and_missing_numbers_are_no_error():
    x = X.copy()
    x[:2, 0], x[2:5, 0] = (np.inf, -np.inf), np.nan
    for predicted in predict_rivals({"x": x}, x[:, 1], {"x": x}, QUANTITY).values():
        assert np.isfinite(predicted).all()
