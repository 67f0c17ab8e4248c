"""Signs of leakage that `penstock init` names, and the options that answer them."""

import numpy as np
import pyarrow as pa
import pytest

from penstock.components.tfrecord.feature_kind import FeatureKind
from penstock.pipelines.blocks.target import Target
from penstock.pipelines.starter.columns import ColumnLook
from penstock.pipelines.starter.leakage import find_leaks
from penstock.pipelines.starter.roles import Roles

CHANCE = np.random.default_rng(0)


def columns(rows=2_000):
    """Features without relation to any target."""
    return {
        "noise": CHANCE.normal(size=rows),
        "other": CHANCE.normal(size=rows),
        "plan": CHANCE.choice(["a", "b", "c"], rows),
    }


def leaks(target, **values):
    table = pa.table({**columns(len(next(iter(values.values())))), **values})
    names = [name for name in table.column_names if name not in ("plan", target.name)]
    roles = Roles(targets=[target], numbers=names, categories={"plan": 3})
    return find_leaks(table, [], roles)


def test_monotone_function_of_a_quantity_is_named():
    wage = CHANCE.lognormal(4, 0.5, 2_000)
    [line] = leaks(Target("wage", "regression"), wage=wage, logwage=np.log(wage))
    assert line.startswith("logwage alone gives wage away (99.")
    assert line.endswith("leave it out by `drop='logwage'`")


def test_feature_that_is_known_after_the_class_is_named():
    left = CHANCE.choice([0, 1], 2_000)
    fee = np.where(left == 1, 9.5, 0.0)
    [line] = leaks(Target("left", "binary", ("0", "1")), left=left, exit_fee=fee)
    assert line.startswith("exit_fee alone gives left away (100.0% of the errors of a constant")


@pytest.mark.parametrize(
    ("sign", "combined"),
    [("+", np.add), ("-", np.subtract), ("*", np.multiply), ("/", np.divide)],
)
def test_pair_that_makes_up_a_quantity_is_named(sign, combined):
    casual, registered = CHANCE.lognormal(3, 1, 2_000), CHANCE.lognormal(3, 1, 2_000)
    target = Target("bikers", "regression")
    found = leaks(target, bikers=combined(casual, registered), casual=casual, registered=registered)
    assert f"casual {sign} registered gives bikers away (100.0% of" in "\n".join(found)


def test_good_features_are_no_leaks():
    x = CHANCE.normal(size=2_000)
    assert leaks(Target("y", "regression"), y=x + CHANCE.normal(size=2_000), x=x) == []
    assert leaks(Target("y", "binary", ("0", "1")), y=(x > 0.5).astype(int), noisy=x + 1) != []
    assert leaks(Target("y", "binary", ("0", "1")), y=CHANCE.choice([0, 1], 2_000), x=x) == []


def test_ids_that_repeat_are_named_unless_they_are_the_group():
    look = ColumnLook("id", FeatureKind.INT, False, 172, counts=tuple((i, 1) for i in range(103)))
    table, roles = pa.table({"id": [1]}), Roles(repeated_ids={"id"})
    [line] = find_leaks(table, [look], roles)
    assert line.startswith("id looks like an id with 103 values in 172 rows")
    assert line.endswith("keep its rows together by `group='id'`")
    assert find_leaks(table, [look], roles, group="id") == []


def test_missing_values_are_no_error():
    target = Target("y", "regression")
    holes = pa.array([None if i % 3 else float(i) for i in range(2_000)])
    assert leaks(target, y=CHANCE.normal(size=2_000), holes=holes) == []


def test_integers_beyond_float64_are_no_error():
    target = Target("y", "regression")
    hashes = pa.array([2**62 + 3 * i for i in range(2_000)])
    assert leaks(target, y=CHANCE.normal(size=2_000), hashes=hashes) == []
