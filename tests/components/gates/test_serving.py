"""Real SavedModels, loaded and asked."""

import pytest
import tensorflow as tf

from penstock.components.errors import UsageError
from penstock.components.gates.options import ServingOptions
from penstock.components.gates.serving_check import check_serving

SPEC = {"x": tf.io.FixedLenFeature([1], tf.float32)}


def row(value, name="x"):
    feature = tf.train.Feature(float_list=tf.train.FloatList(value=[value]))
    return tf.train.Example(features=tf.train.Features(feature={name: feature})).SerializeToString()


ROWS = [row(float(value)) for value in range(20)]


def saved(folder, function, signature="serving_default", of=(None, tf.string)):
    """A SavedModel of a function from serialized Examples to outputs."""
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


def test_serving_good_model_has_no_problems(tmp_path):
    report = check_serving(saved(tmp_path, double), ROWS, ServingOptions(requests=10))

    assert report.problems == ()
    assert report.requests == 10
    assert 0 < report.p50_ms <= report.p99_ms


def test_serving_missing_signature_is_a_problem(tmp_path):
    model = saved(tmp_path, double, signature="predict")
    report = check_serving(model, ROWS, ServingOptions())
    assert report.problems == ("no signature 'serving_default'; it has: predict",)


def test_serving_signature_of_tensors_is_a_problem(tmp_path):
    model = saved(tmp_path, lambda module, x: {"y": x * module.weight}, of=(None, tf.float32))
    (problem,) = check_serving(model, ROWS, ServingOptions()).problems
    assert problem == (
        "signature 'serving_default' takes examples float32 (batch); expected one input of "
        "serialized Examples, string (batch)"
    )


def test_serving_output_that_is_not_finite_is_a_problem(tmp_path):
    model = saved(tmp_path, lambda module, e: {"outputs": 1 / double(module, e)["outputs"]})
    (problem,) = check_serving(model, ROWS, ServingOptions()).problems
    assert problem == "output 'outputs' of row 0 is not finite: [[inf]]"


def test_serving_failing_row_is_a_problem(tmp_path):
    rows = [*ROWS[:2], row(1.0, "z")]
    (problem,) = check_serving(saved(tmp_path, double), rows, ServingOptions()).problems
    assert problem.startswith("row 2 fails: ")
    assert "Feature: x (data type: float) is required" in problem


def test_serving_output_without_batch_dimension_is_a_problem(tmp_path):
    model = saved(tmp_path, lambda m, e: {"outputs": tf.reduce_sum(double(m, e)["outputs"])})
    (problem,) = check_serving(model, ROWS, ServingOptions()).problems
    assert problem == "output 'outputs' has shape () for one row"


def test_serving_model_that_runs_python_is_a_problem(tmp_path):
    """TensorFlow Serving runs none."""
    model = saved(
        tmp_path,
        lambda m, e: {"y": tf.py_function(lambda x: x, [double(m, e)["outputs"]], tf.float32)},
    )
    report = check_serving(model, ROWS, ServingOptions())
    assert report.problems == ("runs Python (EagerPyFunc), which no model server has",)


def test_serving_incomplete_model_is_a_problem(tmp_path):
    model = saved(tmp_path, double)
    (tmp_path / "variables/variables.data-00000-of-00001").unlink()
    (problem,) = check_serving(model, ROWS, ServingOptions()).problems
    assert problem.startswith("does not load: ")


def test_serving_model_above_the_latency_limit_is_a_problem(tmp_path):
    report = check_serving(saved(tmp_path, double), ROWS, ServingOptions(max_p99_ms=1e-6))
    (problem,) = report.problems
    assert problem.endswith("ms; expected at most 1e-06")
    assert report.requests > 0


def test_serving_without_rows_is_a_problem(tmp_path):
    report = check_serving(saved(tmp_path, double), [], ServingOptions())
    assert report.problems == ("no rows to send",)


def test_serving_options_outside_their_range_are_refused():
    with pytest.raises(UsageError, match="`requests` must be at least 1, got 0"):
        ServingOptions(requests=0)
    with pytest.raises(UsageError, match="`max_p99_ms` must be at least 0, got -1"):
        ServingOptions(max_p99_ms=-1)
