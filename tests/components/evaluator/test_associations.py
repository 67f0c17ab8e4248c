import numpy as np
import pytest

from penstock.components.evaluator.associations import correlations, groups


def test_numbers_with_many_values_are_grouped_by_quantiles_and_missing_ones_apart():
    values = [*map(float, range(16)), None, None]
    labels = np.array([*[0.0] * 8, *[1.0] * 8, 1.0, 0.0])
    found = groups(values, labels, labels / 2)
    assert [one["name"] for one in found] == [
        *[(float(i), i + 1.0) for i in range(0, 16, 2)], "missing"
    ]  # fmt: skip
    assert [one["rows"] for one in found] == [2] * 9
    assert [one["label"] for one in found] == [0, 0, 0, 0, 1, 1, 1, 1, 0.5]
    assert found[-1]["prediction"] == 0.25


def test_texts_with_many_values_keep_the_most_frequent_and_join_the_rest():
    values = [*"aabbccddeeffgg", "h", "i"]
    labels = np.ones(16)
    found = groups(values, labels, labels)
    assert [(one["name"], one["rows"]) for one in found] == [
        *[(name, 2) for name in "abcdefg"], ("other", 2)
    ]  # fmt: skip


def test_few_numbers_are_groups_of_their_own_in_order():
    found = groups([3.0, 1.0, 1.0], np.array([1.0, 0.0, 1.0]), np.zeros(3))
    assert [(one["name"], one["label"]) for one in found] == [(1.0, 0.5), (3.0, 1.0)]


def test_correlations_are_of_numbers_that_vary_over_rows_with_both():
    columns = {
        "label": [0.0, 1.0, 2.0, 5.0],
        "twice": [0.0, 2.0, 4.0, None],
        "down": [3.0, 2.0, 1.0, -2.0],
        "fixed": [1.0] * 4,
        "text": ["a"] * 4,
    }
    found = correlations(columns)
    assert found.keys() == {"label", "twice", "down"}
    assert found["label"] == pytest.approx({"label": 1, "twice": 1, "down": -1})


def test_a_frequent_number_is_a_group_of_its_own():
    values = [0.0] * 92 + [float(i) for i in range(1, 11)]
    labels = np.array([0.0] * 92 + [1.0] * 10)
    low, *high = groups(values, labels, labels)
    assert (low["name"], low["label"]) == ((0.0, 0.0), 0.0)
    assert {one["label"] for one in high} == {1.0}
