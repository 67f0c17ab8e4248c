from math import nan

import pytest

from penstock.components.evaluator.slice_metrics import (
    hanley_mcneil,
    intervals,
    meaningful,
    rows_in_no_slice,
    wilson,
)


def never(where):
    raise AssertionError("no area is 0: the plots are not read")


def test_what_is_not_a_number_is_left_out():
    metrics = {"overall": {"auc": 0.5, "precision": nan}}
    assert meaningful(metrics, never) == {"overall": {"auc": 0.5}}


@pytest.mark.parametrize(
    ("values", "positives", "kept"),
    [
        ({"auc": 0.0, "recall": nan, "example_count": 26}, {}, False),
        ({"auc": 0.0, "example_count": 1}, {}, False),
        ({"auc": 0.0, "recall": 0.5, "example_count": 26}, {"a": (26.0, 26.0)}, False),
        ({"auc": 0.0, "recall": 0.0, "example_count": 26}, {"a": (1.0, 26.0)}, True),
        ({"auc": 0.0, "recall": 0.0, "example_count": 26}, {}, True),
    ],
)
def test_an_area_of_one_class_is_left_out_and_one_that_is_0_stays(values, positives, kept):
    assert ("auc" in meaningful({"a": values}, positives.get)["a"]) is kept


def test_rows_that_lack_a_feature_are_a_slice_of_their_own():
    metrics = {
        "overall": {"example_count": 100.0, "accuracy": 0.9, "auc": 0.8},
        "kind=a": {"example_count": 50.0, "accuracy": 1.0, "auc": 0.9},
        "kind=b": {"example_count": 40.0, "accuracy": 0.975, "auc": 0.9},
        "hour=1": {"example_count": 100.0, "accuracy": 0.9, "auc": 0.8},
        "hour=1, kind=a": {"example_count": 50.0, "accuracy": 1.0},
    }
    features = {
        "kind=a": ("kind",), "kind=b": ("kind",), "hour=1": ("hour",),
        "hour=1, kind=a": ("hour", "kind"),
    }  # fmt: skip
    assert rows_in_no_slice(metrics, features) == {
        "kind missing": {"example_count": 10.0, "accuracy": 0.1},
        "hour, kind missing": {"example_count": 50.0, "accuracy": 0.8},
    }


def test_without_a_number_of_examples_nothing_is_known():
    metrics = {"overall": {"accuracy": 0.9}, "kind=a": {"accuracy": 1.0}}
    assert rows_in_no_slice(metrics, {"kind=a": ("kind",)}) == {}


def test_shares_have_wilsons_interval():
    # Wilson's interval for 8 of 10 is 0.4902 to 0.9433 (Newcombe 1998, method 3: 0.490 to 0.943).
    assert wilson(0.8, 10) == pytest.approx((0.4902, 0.9433), abs=1e-4)
    assert wilson(0.0, 10) == pytest.approx((0.0, 0.2775), abs=1e-4)
    low, high = intervals({"example_count": 10.0, "accuracy": 1.0})["accuracy"]
    assert (low, high) == (pytest.approx(0.7225, abs=1e-4), 1.0)


def test_an_area_has_hanleys_and_mcneils():
    # Hanley and McNeil's table: AUC 0.893 with 51 sick and 58 healthy has standard error 0.032.
    low, high = hanley_mcneil(0.893, 51, 58)
    assert (high - low) / 2 / 1.96 == pytest.approx(0.032, abs=1e-3)


def test_counts_of_a_binary_model_follow_from_its_metrics():
    metrics = {
        "example_count": 100.0,
        "binary_accuracy": 0.9,
        "precision": 0.8,
        "recall": 0.8,
        "auc": 0.95,
    }
    found = intervals(metrics)  # 25 examples are positive, 25 are predicted positive
    assert found["precision"] == found["recall"] == wilson(0.8, 25)
    assert found["auc"] == hanley_mcneil(0.95, 25, 75)
    assert found["binary_accuracy"] == wilson(0.9, 100)


def test_mean_errors_have_their_standard_errors():
    metrics = {
        "example_count": 100.0,
        "mean_absolute_error": 3.0,
        "root_mean_squared_error": 5.0,
        "squared_pearson_correlation": 0.5,
    }
    found = intervals(metrics, squares_error=4.0)
    assert found["mean_absolute_error"] == pytest.approx((3 - 0.784, 3 + 0.784))
    assert found["root_mean_squared_error"] == pytest.approx(
        ((25 - 7.84) ** 0.5, (25 + 7.84) ** 0.5)
    )
    assert "squared_pearson_correlation" not in found
    assert "root_mean_squared_error" not in intervals(metrics)


@pytest.mark.parametrize("rows", [0.0, 10.5])
def test_weighted_or_no_rows_have_none(rows):
    assert intervals({"example_count": rows, "accuracy": 0.5}) == {}
