import numpy as np
import pandas as pd
import pytest
import tensorflow_data_validation as tfdv

from penstock.components.gates.drift import distances, largest_share
from penstock.components.gates.gate import find_problems
from penstock.components.gates.options import GateOptions

RANDOM = np.random.default_rng(1)


def statistics(**columns):
    return tfdv.generate_statistics_from_dataframe(pd.DataFrame(columns)).datasets[0]


def trips(rows=4000, fare=10.0, cash=0.5, seen=None):
    return statistics(
        fare=RANDOM.normal(fare, 3.0, rows),
        payment=RANDOM.choice(["cash", "card"], rows, p=[cash, 1 - cash]),
        hour=RANDOM.integers(0, 24, rows),
        seen=[None if seen and i % seen == 0 else 1.0 for i in range(rows)],
    )


@pytest.fixture(scope="module")
def usual():
    return trips()


def test_distance_of_like_data_is_small(usual):
    assert all(distance < 0.1 for _, distance in distances(usual, trips()))
    assert dict(distances(usual, usual)) == dict.fromkeys(("fare", "hour", "payment", "seen"), 0.0)


def test_distance_of_other_values_is_large(usual):
    found = dict(distances(usual, trips(fare=13.0, cash=0.8, seen=2)))
    # The means are 1 standard deviation apart: 2 Phi(1/2) - 1 = 0.38.
    assert found["fare"] == pytest.approx(0.38, abs=0.06)
    assert found["payment"] == pytest.approx(0.3, abs=0.03)
    assert found["seen"] == pytest.approx(0.5, abs=0.01)
    assert found["hour"] < 0.1


def test_distance_of_new_or_retyped_feature_is_1(usual):
    found = dict(distances(usual, statistics(fare=["a"] * 10, other=[1] * 10)))
    assert found == dict.fromkeys(("fare", "hour", "payment", "seen", "other"), 1.0)


@pytest.mark.parametrize(
    ("values", "share"),
    [
        (["a"] * 9 + ["b"], 0.9),
        ([0] * 7 + [1] * 3, 0.7),
        ([3] * 2 + [5] * 8, 0.8),
        ([0] * 4 + [100, 200, 300, 400, 500, 600], 0.4),
        ([0.0] * 6 + [0.5] * 4, 0.6),
    ],
)
def test_largest_share_of_a_value(values, share):
    [feature] = statistics(label=values).features
    assert largest_share(feature) == pytest.approx(share, abs=0.002)


def test_gate_names_drift_skew_and_imbalanced_label(usual):
    moved = trips(cash=0.9)
    options = GateOptions(labels=("payment",), max_drift=0.2, max_skew=0.2, max_label_share=0.75)
    assert find_problems({"train": usual, "eval": usual}, {}, None, options, {"train": usual}) == []
    drift, share = find_problems({"train": moved}, {}, None, options, {"train": usual})[::-1]
    assert drift.startswith("split 'train', feature 'payment': its values differ by 0.")
    assert drift.endswith(" from those in the baseline's data; expected at most 0.2")
    assert share.startswith("split 'train', label 'payment': one value has ")
    assert share.endswith(" of the rows; expected at most 75.00%")
    skew = find_problems({"train": usual, "eval": moved}, {}, None, options, None)[-1]
    assert skew.startswith("split 'eval', feature 'payment': its values differ by 0.")
    assert skew.endswith(" from those in split 'train'; expected at most 0.2")
    lax = GateOptions(labels=("payment",))
    assert find_problems({"train": moved}, {}, None, lax, {"train": usual}) == []
