import json
from dataclasses import replace
from types import SimpleNamespace

import keras
import numpy as np
import pytest
import tensorflow as tf

from penstock.components.errors import DataError, UsageError
from penstock.pipelines.blocks import training
from penstock.pipelines.blocks.config import DecideOptions, TableConfig
from penstock.pipelines.blocks.target import Target
from penstock.pipelines.blocks.training import (
    callbacks_of,
    compare_with_rivals,
    require_beaten,
    train_and_compare,
    write_rivals,
)
from penstock.pipelines.blocks.training_options import read_options, training_options

LEFT = Target("left", "binary", classes=("no", "yes"))
PRICE = Target("price", "regression")
X = np.array([[0.0], [0.0], [0.0], [1.0]], np.float32)


def model_of(function):
    x = keras.Input((1,), name="x")
    return keras.Model({"x": x}, keras.layers.Lambda(function)(x))


def data(labels):
    return tf.data.Dataset.from_tensor_slices(({"x": X}, labels)).batch(3)


SEEN = []


def my_callbacks():
    """A function that a user's config names, used in the test below."""
    return [keras.callbacks.LambdaCallback(on_epoch_end=lambda n, logs: SEEN.append(n))]


def test_callbacks_of_the_config_see_the_training(tmp_path):
    config = TableConfig(callbacks=f"{__name__}.my_callbacks", must_beat=None)
    config = replace(config, train=replace(config.train, max_steps=4, steps_per_epoch=2))
    custom = json.loads(
        json.dumps(training_options(config, "penstock.pipelines.taxi.model.run_fn"))
    )
    fn_args = SimpleNamespace(
        custom_config=custom, base_model=None, transform_graph_path=None, train_files=["x"],
        model_run_dir=str(tmp_path / "run/1"), serving_model_dir="", hyperparameters=None,
    )  # fmt: skip
    rows = data(np.array([[0], [0], [0], [1]]))
    rows_in = SimpleNamespace(train=lambda start: rows.repeat(), eval=lambda: rows)

    def build_model():
        x = keras.Input((1,), name="x")
        model = keras.Model({"x": x}, keras.layers.Dense(1, activation="sigmoid")(x))
        model.compile("sgd", "binary_crossentropy", jit_compile=False)
        return model

    train_and_compare(fn_args, [LEFT], read_options(custom), build_model, rows_in, rows_in)
    assert SEEN == [0, 1]


@pytest.mark.parametrize("path", ["nowhere.callbacks", f"{__name__}.nothing", "name"])
def test_callbacks_that_do_not_exist_are_named(path):
    with pytest.raises(UsageError, match=f"callbacks: '{path}' must be package.module.function"):
        callbacks_of(path)


def test_loss_of_a_sure_model_is_that_of_its_logits_as_in_training():
    x = keras.Input((1,), name="x")
    logit = keras.layers.Dense(1, activation="sigmoid", kernel_initializer="ones")
    model = keras.Model({"x": x}, logit(keras.layers.Rescaling(62.0, -31.0)(x)))
    model.compile(loss="binary_crossentropy")
    rows = data(np.array([[0], [0], [1], [1]]))  # sure and wrong about the third: logit -31
    [compared] = compare_with_rivals(model, rows, [LEFT])
    assert compared.model == pytest.approx(31 / 4)
    assert compared.model == pytest.approx(model.evaluate(rows, verbose=0), rel=1e-6)


def test_class_that_the_model_hardly_finds_is_told():
    labels = np.array([[0], [0], [0], [1]] * 100)
    rows = tf.data.Dataset.from_tensor_slices(({"x": np.tile(X, (100, 1))}, labels)).batch(300)
    [compared] = compare_with_rivals(model_of(lambda x: 0.1 + 0.3 * x), rows, [LEFT])
    assert (compared.class_rows, compared.found_rows) == ((300, 100), (300, 0))
    assert compared.constant == "'no' with 0.750"
    assert compared.missed == (
        "the model finds 0.0% of 'yes' (0 of 100 rows); go by its probabilities, set "
        "evaluation.decide.recall, or train with model.class_weights=true"
    )
    assert replace(compared, found_rows=(290, 90)).missed == ""
    [decided] = compare_with_rivals(
        model_of(lambda x: 0.1 + 0.3 * x), rows, [LEFT], decide=DecideOptions(recall=0.8)
    )
    assert (decided.found_rows, decided.missed) == ((300, 100), "")
    assert decided.decision == (
        "left: 'yes' from a probability of 0.25 on; finds 100 of 100 with no false alarms"
    )


def test_rivals_fitted_on_a_part_of_the_rows_say_so(monkeypatch):
    monkeypatch.setattr(training, "MAX_ROWS", 128)
    x = np.random.default_rng(0).uniform(-1, 1, (500, 1)).astype(np.float32)
    y = (x > 0).astype(np.int64)
    named = unsure_model()
    tested = rows_of(x[:100], y[:100])
    [part] = compare_with_rivals(named, tested, [LEFT], rows_of(x[100:], y[100:]))
    assert [rival.fitted_rows for rival in part.rivals] == [128, 128]
    assert "(fitted on 128 rows only)" in str(part)
    [all_] = compare_with_rivals(named, tested, [LEFT], rows_of(x[100:228], y[100:228]))
    assert [rival.fitted_rows for rival in all_.rivals] == [None, None]


def test_model_that_predicts_the_mean_is_refused():
    values = np.array([[1.0], [2.0], [3.0], [6.0]], np.float32)
    compared = compare_with_rivals(model_of(lambda x: 3 + 0 * x), data(values), [PRICE])
    with pytest.raises(DataError, match=r"than a constant .price: mean squared error 3.5, 3.5 by"):
        require_beaten(compared, "constant")


def test_compare_with_rivals_several_targets(tmp_path):
    x = keras.Input((1,), name="x")
    colour = Target("colour", "classes", classes=("r", "g", "b"))
    outputs = {
        "colour_xf": keras.layers.Lambda(
            lambda x: keras.ops.softmax(keras.ops.concatenate([1 - x, x, 0 * x], axis=1) * 9)
        )(x),
        "price_xf": keras.layers.Lambda(lambda x: 2 * x)(x),
    }
    labels = {
        "colour_xf": np.array([[0], [0], [0], [1]]),
        "price_xf": np.array([[0.0], [0.0], [0.0], [2.0]]),
    }
    compared = compare_with_rivals(keras.Model({"x": x}, outputs), data(labels), [colour, PRICE])
    assert [one.beats("constant") for one in compared] == [True, True]
    write_rivals(str(tmp_path), compared)
    written = json.loads((tmp_path / "rivals.json").read_text())
    assert [(one["target"], one["metric"]) for one in written] == [
        ("colour", "cross-entropy"),
        ("price", "mean squared error"),
    ]


def unsure_model():
    x = keras.Input((1,), name="numbers")
    return keras.Model({"numbers": x}, keras.layers.Rescaling(0, 0.5)(x))


def rows_of(x, y):
    return tf.data.Dataset.from_tensor_slices(({"numbers": x[:, :1], "codes": y * 0}, y)).batch(64)


def test_comparison_fits_linear_model_and_trees_on_the_training_rows():
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, (900, 1)).astype(np.float32)
    y = (np.abs(x) > 0.5).astype(np.int64)  # no line separates the classes, but two cuts do
    named = unsure_model()
    [compared] = compare_with_rivals(
        named, rows_of(x[600:], y[600:]), [LEFT], rows_of(x[:600], y[:600])
    )
    linear, trees = compared.rivals
    assert (linear.name, trees.name) == ("linear", "trees")
    assert 0.65 < linear.loss < 0.75
    assert trees.loss < 0.15
    assert compared.standing == "beside linear, behind trees"
    with pytest.raises(DataError, match="no better than boosted trees"):
        require_beaten([compared], "trees")
    require_beaten([replace(compared, model=0.0)], "trees")
