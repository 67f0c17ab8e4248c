"""Signs of leakage within one table and between splits."""

import numpy as np
import pyarrow as pa
import pytest

from penstock.components.gates.leakage import find_leaks

CHANCE = np.random.default_rng(0)


@pytest.fixture(autouse=True)
def same_values_in_any_order_of_tests():
    CHANCE.bit_generator.state = np.random.default_rng(0).bit_generator.state


def columns(rows=2_000):
    """Features that are unrelated to any target."""
    return {
        "noise": CHANCE.normal(size=rows),
        "other": CHANCE.normal(size=rows),
        "plan": CHANCE.choice(["a", "b", "c"], rows),
    }


def leaks(target, **values):
    table = pa.table({**columns(len(next(iter(values.values())))), **values})
    return [leak.text for leak in find_leaks({"": table}, [target])]


def test_monotone_function_of_a_quantity_is_named():
    wage = CHANCE.lognormal(4, 0.5, 2_000)
    [line] = leaks("wage", wage=wage, logwage=np.log(wage))
    assert line.startswith("logwage alone gives wage away (99.")
    assert line.endswith("if it is known only afterwards, leave it out")


def test_feature_that_is_known_after_the_class_is_named():
    left = CHANCE.choice([0, 1], 2_000)
    fee = np.where(left == 1, 9.5, 0.0)
    [line] = leaks("left", left=left, exit_fee=fee)
    assert line.startswith("exit_fee alone gives left away (100.0% of the errors of a constant")


def test_good_features_are_no_leaks():
    x = CHANCE.normal(size=2_000)
    assert leaks("y", y=x + CHANCE.normal(size=2_000), x=x) == []
    assert leaks("y", y=(x > 0.5).astype(int), noisy=x + 1) != []
    assert leaks("y", y=CHANCE.choice([0, 1], 2_000), x=x) == []


def patients(ids):
    return pa.table({"patient_id": ids, "y": CHANCE.normal(size=len(ids))})


def test_ids_that_repeat_are_named_unless_they_are_the_group():
    table = patients([i % 103 for i in range(172)])
    [leak] = find_leaks({"": table}, ["y"])
    assert leak.text.startswith("patient_id looks like an id with 103 values in 172 rows")
    assert (leak.remedy, leak.column) == ("group", "patient_id")
    assert find_leaks({"": table}, ["y"], group="patient_id") == []


def test_rows_with_an_id_of_another_split_are_counted():
    splits = {"train": patients([i // 2 for i in range(100)]), "eval": patients([7, 8, 900])}
    [leak] = find_leaks(splits, ["y"])
    assert "and 2 of 3 rows of eval have one of train" in leak.text


def test_rows_in_two_splits_are_counted_apart_from_their_ids():
    x, y = CHANCE.normal(size=(2, 300))
    table = pa.table({"id": range(300), "x": x, "y": y, "plan": CHANCE.choice(["a", "b"], 300)})
    again = table.slice(0, 20).set_column(0, "id", pa.array(range(1000, 1020)))
    splits = {"train": table.slice(0, 200), "eval": pa.concat_tables([table.slice(200), again])}
    [leak] = find_leaks(splits, ["y"])
    assert leak.text.startswith("20 of 120 rows of eval stand in train, too")


def test_few_categories_share_rows_by_chance():
    rows = {name: CHANCE.choice(["a", "b", "c"], 600) for name in ("x", "y")}
    table = pa.table(rows)
    assert find_leaks({"train": table.slice(0, 400), "eval": table.slice(400)}, ["y"]) == []


def test_feature_that_is_left_out_is_no_leak():
    wage = CHANCE.lognormal(4, 0.5, 2_000)
    table = pa.table({"wage": wage, "logwage": np.log(wage)})
    assert find_leaks({"": table}, ["wage"], left_out=["logwage"]) == []


@pytest.mark.parametrize(
    "values",
    [
        pa.array([None if i % 3 else float(i) for i in range(2_000)]),
        pa.array([2**62 + 3 * i for i in range(2_000)]),  # not exact in float64
    ],
)
def test_missing_values_and_large_integers_are_no_error(values):
    target = "y"
    assert leaks(target, y=CHANCE.normal(size=2_000), values=values) == []


IDS = [*range(90), *range(10)]


@pytest.mark.parametrize("kind", [pa.null(), pa.float32(), pa.large_binary()])
@pytest.mark.parametrize("values", [IDS, [17_031_081_401 + one for one in IDS], ["a"] * 100])
def test_column_without_a_value_in_one_split_is_no_error(values, kind):
    train = pa.table({"y": [0, 1] * 50, "user_id": values})
    evaluation = pa.table({"y": [0, 1], "user_id": pa.nulls(2, kind)})
    for splits in ({"a": train, "b": evaluation}, {"a": evaluation, "b": train}):
        assert find_leaks(splits, ["y"]) == []


def test_features_that_the_sample_of_a_split_lacks_are_left_out():
    ids = [i // 2 for i in range(100)]
    lists = {"tag_id": ids, "label": ids}  # lists in eval, so its sample omits these columns
    train = pa.table({"a_id": ids, "y": CHANCE.normal(size=100), **lists})
    evaluation = pa.table({"extra": [1], "y": [0.5], "a_id": [7]})
    [leak] = find_leaks({"train": train, "eval": evaluation}, ["y", "label"])
    assert "1 of 1 rows of eval have one of train" in leak.text
    assert find_leaks({"train": train, "eval": pa.table({})}, ["y"]) == []
