import numpy as np
import pytest

from penstock.components.errors import UsageError
from penstock.pipelines.blocks.config import DecideOptions
from penstock.pipelines.blocks.decide import decision_threshold, require_two_classes
from penstock.pipelines.blocks.target import Target

LABELS = np.array([1, 0, 1, 0, 1, 0, 0, 1])
SAID = np.array([0.9, 0.8, 0.7, 0.7, 0.4, 0.3, 0.2, 0.1], np.float32)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, None),
        ({"recall": 0.25}, 0.85),
        ({"recall": 0.3}, 0.55),  # two rows with 0.7 get the same answer
        ({"recall": 0.75}, 0.35),
        ({"recall": 1.0}, 0.05),
        ({"miss_cost": 0.1}, 0.85),
        ({"miss_cost": 1.5}, 0.35),  # 0.35: 2 false alarms and 1 miss; 0.85: 3 misses
        ({"miss_cost": 10}, 0.05),
    ],
)
def test_threshold_by_recall_or_cost(options, expected):
    found = decision_threshold(LABELS, SAID, DecideOptions(**options))
    assert found == (None if expected is None else pytest.approx(expected))


def test_rows_of_one_class_have_no_threshold():
    assert decision_threshold(0 * LABELS, SAID, DecideOptions(recall=0.5)) is None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"recall": 0.5, "miss_cost": 2}, "set recall or miss_cost, not both"),
        ({"recall": 0.0}, "recall must be above 0, at most 1: 0.0"),
        ({"miss_cost": 0}, "miss_cost must be above 0, got 0"),
    ],
)
def test_options_without_a_meaning_are_refused(options, message):
    with pytest.raises(UsageError, match=message):
        DecideOptions(**options)


def test_only_two_classes_can_be_decided_between():
    price = Target("price", "regression")
    require_two_classes(DecideOptions(), [price])
    with pytest.raises(UsageError, match=r"target 'price' is of the task 'regression': leave it"):
        require_two_classes(DecideOptions(recall=0.5), [price])
