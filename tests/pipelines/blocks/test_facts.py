import math

import numpy as np
import pytest

from penstock.components.errors import DataError
from penstock.pipelines.blocks.facts import LabelFacts, label_facts
from penstock.pipelines.blocks.target import Target

LEFT = Target("left", "binary", classes=("no", "yes"))


def test_label_facts_mean_and_deviation_far_from_zero():
    values = 1e6 + np.arange(10, dtype=np.float32)
    facts = label_facts([values[:3, None], values[3:, None]], Target("price", "regression"))
    assert facts == LabelFacts(10, pytest.approx(1e6 + 4.5), pytest.approx(math.sqrt(8.25)))
    assert facts.constant_loss == pytest.approx(8.25)


def test_label_facts_class_counts_and_weights():
    facts = label_facts([np.array([[0], [0]]), np.array([[0], [1]])], LEFT)
    assert facts.class_counts == (3, 1)
    assert facts.class_weights == pytest.approx([4 / 6, 2])
    assert facts.constant_loss == pytest.approx(-0.75 * math.log(0.75) - 0.25 * math.log(0.25))


def test_label_outside_the_classes_is_refused():
    with pytest.raises(
        DataError, match=r"target 'left': 1 of 2 labels are not among its classes \(no, yes\)"
    ):
        label_facts([np.array([0, -1])], LEFT)


def test_label_that_is_not_finite_is_refused():
    with pytest.raises(DataError, match="target 'price': a label is not finite"):
        label_facts([np.array([0.0, np.nan])], Target("price", "regression"))


@pytest.mark.parametrize(
    ("task", "classes", "message"),
    [
        ("binary", ("a",), "target 't': a task 'binary' has two classes, got 1"),
        ("classes", (), "has at least two classes, got 0"),
        ("regression", ("a", "b"), "has no classes, got 2"),
        ("ranking", (), "task must be one of binary, classes, regression, got 'ranking'"),
    ],
)
def test_target_classes_that_do_not_fit_the_task_are_refused(task, classes, message):
    with pytest.raises(ValueError, match=message):
        Target("t", task, classes)
