"""Loads and queries real SavedModels, and checks the blessing that TFX's Pusher reads."""

import json

import pytest
import tensorflow as tf
from row_files import example, write_shards
from tfx.types.standard_artifacts import Examples, InfraBlessing, Model

from penstock.components.errors import UsageError
from penstock.components.gates.options import ServingOptions
from penstock.components.gates.serving_check import ServingCheck, check_serving
from penstock.components.plain import to_json

SPEC = {"x": tf.io.FixedLenFeature([1], tf.float32)}


ROWS = [example(x=[float(value)]) for value in range(20)]


def saved(folder, function, signature="serving_default", of=(None, tf.string)):
    """Saves a model whose signature applies a function to serialized Examples."""
    module = tf.Module()
    module.weight = tf.Variable(2.0)
    shape, dtype = [of[0]], of[1]
    module.serve = tf.function(
        lambda examples: function(module, examples),
        input_signature=[tf.TensorSpec(shape, dtype, "examples")],
    )
    tf.saved_model.save(module, str(folder), {signature: module.serve})
    return str(folder)


def double(module, examples):
    return {"outputs": tf.io.parse_example(examples, SPEC)["x"] * module.weight}


def inverse(module, examples):
    return {"outputs": 1 / double(module, examples)["outputs"]}


def summed(module, examples):
    return {"outputs": tf.reduce_sum(double(module, examples)["outputs"])}


def by_python(module, examples):
    """Calls Python in the model with `tf.py_function`, which TensorFlow Serving cannot run."""
    values = double(module, examples)["outputs"]
    return {"y": tf.py_function(lambda x: x, [values], tf.float32)}


@pytest.mark.parametrize(
    ("function", "made", "rows", "problem"),
    [
        (double, {"signature": "predict"}, ROWS, "no signature 'serving_default'; it has: predict"),
        (
            lambda module, x: {"y": x * module.weight},
            {"of": (None, tf.float32)},
            ROWS,
            "signature 'serving_default' takes examples float32 (batch); expected one input of "
            "serialized Examples, string (batch)",
        ),
        (inverse, {}, ROWS, "output 'outputs' of row 0 is not finite: [[inf]]"),
        (double, {}, [*ROWS[:2], example(z=[1.0])], "row 2 fails: "),
        (summed, {}, ROWS, "output 'outputs' has shape () for one row"),
        (by_python, {}, ROWS, "runs Python (EagerPyFunc), which no model server has"),
        (double, {}, [], "no rows to send"),
    ],
)
def test_model_that_cannot_be_served_has_one_problem(function, made, rows, problem, tmp_path):
    report = check_serving(saved(tmp_path, function, **made), rows, ServingOptions())
    [found] = report.problems
    assert found.startswith(problem)


def test_serving_incomplete_model_is_a_problem(tmp_path):
    model = saved(tmp_path, double)
    (tmp_path / "variables/variables.data-00000-of-00001").unlink()
    (problem,) = check_serving(model, ROWS, ServingOptions()).problems
    assert problem.startswith("does not load: ")


def check(root, **options):
    """Checks a good model; returns its blessing and the report in the blessing."""
    saved(root / "model/Format-Serving", double)
    write_shards(root / "examples", ROWS, split="eval")
    model, examples, blessing = Model(), Examples(), InfraBlessing()
    for artifact, name in ((model, "model"), (examples, "examples"), (blessing, "blessing")):
        artifact.uri = f"{root}/{name}"
    examples.split_names = '["eval"]'
    (root / "blessing").mkdir()
    ServingCheck.test_call(
        model=model,
        examples=examples,
        blessing=blessing,
        options=to_json(ServingOptions(**options)),
    )
    return blessing, json.loads((root / "blessing/serving_check.json").read_text())


def test_serving_check_blesses_a_model_that_answers(tmp_path, capfd):
    blessing, report = check(tmp_path, requests=10)
    assert blessing.get_int_custom_property("blessed") == 1
    assert (tmp_path / "blessing/INFRA_BLESSED").exists()
    assert report["problems"] == []
    assert report["requests"] == 10
    assert 0 < report["p50_ms"] <= report["p99_ms"]
    assert "serving check: loads in" in capfd.readouterr().out


def test_serving_check_keeps_a_slow_model_from_the_push(tmp_path):
    blessing, report = check(tmp_path, max_p99_ms=1e-6)
    assert blessing.get_int_custom_property("blessed") == 0
    assert (tmp_path / "blessing/INFRA_NOT_BLESSED").exists()
    [problem] = report["problems"]
    assert problem.endswith("ms; expected at most 1e-06")


def test_serving_check_missing_split_is_named(tmp_path):
    with pytest.raises(UsageError, match=r"the Examples have no split 'test'; choices: eval"):
        check(tmp_path, split="test")
