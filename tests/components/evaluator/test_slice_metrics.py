from math import nan

import pytest

from penstock.components.evaluator.slice_metrics import meaningful, rows_in_no_slice


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
