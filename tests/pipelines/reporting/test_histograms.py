import pytest

from penstock.pipelines.reporting.histograms import (
    Bar,
    Bucket,
    Histogram,
    common_bins,
    common_labels,
)


def test_two_splits_stand_on_the_same_bins():
    train, evaluation = common_bins([Histogram([Bucket(0, 5, 50)]), Histogram([Bucket(5, 10, 20)])])
    assert [bar.count for bar in train] == [10] * 5 + [0] * 5
    assert [bar.count for bar in evaluation] == [0] * 5 + [4] * 5
    assert [bar.label for bar in train] == [bar.label for bar in evaluation]
    assert train[0].label == "0.0 to 1.0"


def test_of_a_long_tail_the_middle_is_shown_and_all_is_counted():
    equal = [Bucket(0, 100, 95), Bucket(100, 1000, 5)]
    deciles = [Bucket(i, i + 1, 10) for i in range(9)] + [Bucket(9, 1000, 10)]
    [bars] = common_bins([Histogram(equal, deciles)])
    assert bars[0].label == "below 1"
    assert bars[-1] == Bar("over 9", 10)
    assert sum(bar.count for bar in bars) == pytest.approx(100)
    assert max(bar.count for bar in bars) < 20


def test_nothing_and_one_value():
    assert common_bins([Histogram([]), Histogram([])]) == [[], []]
    assert common_bins([Histogram([Bucket(float("nan"), 1, 3)])]) == [[]]
    [bars] = common_bins([Histogram([Bucket(7, 7, 3)])])
    assert sum(bar.count for bar in bars) == 3


def test_labels_stand_in_one_order():
    first, second = common_labels([{"a": 1, "b": 5}, {"c": 2, "b": 1}])
    assert first == [Bar("b", 5), Bar("c", 0), Bar("a", 1)]
    assert second == [Bar("b", 1), Bar("c", 2), Bar("a", 0)]


def test_few_integers_have_a_bar_each():
    yes_no = Histogram([Bucket(0, 0, 7), Bucket(1, 1, 3)])
    days = Histogram([Bucket(1, 1, 2), Bucket(3, 3, 5)])
    assert common_bins([yes_no, days]) == [
        [Bar("0", 7), Bar("1", 3), Bar("2", 0), Bar("3", 0)],
        [Bar("0", 0), Bar("1", 2), Bar("2", 0), Bar("3", 5)],
    ]
