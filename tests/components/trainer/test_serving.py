"""Calls the signature `serve_columns` from Python, and as TensorFlow Serving calls it."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from penstock.components.errors import UsageError
from penstock.components.gates.serving_skew import Served as SessionModel
from penstock.components.trainer.served_columns import MISSING_INT
from penstock.components.trainer.serving import Served, serve_columns

SPEC = {
    "age": tf.io.VarLenFeature(tf.int64),
    "monthly fee": tf.io.FixedLenFeature([1], tf.float32, 0.0),
    "plan": tf.io.VarLenFeature(tf.string),
}


class Graph(tf.Module):
    """Stands in for Transform's graph: age (100 if missing), fee, and whether `plan` is `pro`."""

    def __call__(self, raw):
        age = tf.sparse.to_dense(raw["age"], 100)
        plan = tf.sparse.to_dense(raw["plan"], "")
        columns = [tf.cast(age, tf.float32), raw["monthly fee"], tf.cast(plan == "pro", tf.float32)]
        return {"x": tf.concat([tf.reshape(c, [-1, 1]) for c in columns], axis=1)}


def model_of(outputs):
    x = keras.Input((3,), name="x")
    return keras.Model({"x": x}, outputs(x))


def save(folder, model, served):
    signature = serve_columns(model, Graph(), SPEC, served)
    module = tf.Module()
    module.model = model
    tf.saved_model.save(module, str(folder), signatures={"serve_columns": signature})
    return tf.saved_model.load(str(folder))


def ask(served, age=(), monthly_fee=(), plan=()):
    """Calls the signature from Python; an empty column is missing in every row."""
    return served.signatures["serve_columns"](
        age=tf.constant(age, tf.int64),
        monthly_fee=tf.constant(monthly_fee, tf.float32),
        plan=tf.constant(plan, tf.string),
    )


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    folder = tmp_path_factory.mktemp("model")
    # The probability of `yes` is the age / 100; a missing age counts as 100.
    model = model_of(lambda x: keras.layers.Lambda(lambda x: x[:, :1] / 100)(x))
    return folder, save(folder, model, {"left_xf": Served(classes=("no", "yes"))})


def test_classes_have_probabilities_a_number_and_words(saved):
    answer = ask(saved[1], [20, 90], [1.0, 2.0], ["pro", "basic"])
    np.testing.assert_allclose(answer["probabilities"], [[0.8, 0.2], [0.1, 0.9]], atol=1e-6)
    assert answer["label"].numpy().tolist() == [0, 1]
    assert answer["text"].numpy().tolist() == [b"no", b"yes"]


def test_class_of_two_follows_a_threshold(tmp_path):
    model = model_of(lambda x: keras.layers.Lambda(lambda x: x[:, :1] / 100)(x))
    served = {"left_xf": Served(classes=("no", "yes"), threshold=0.199)}
    answer = ask(save(tmp_path, model, served), [19, 20])
    assert answer["text"].numpy().tolist() == [b"no", b"yes"]


def serve(folder, **columns):
    """Answers a request as TensorFlow Serving does: feeds the given columns to the signature.

    The server fills missing columns with the signature's defaults, and the graph in this session
    does the same.
    """
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        graph = tf.compat.v1.saved_model.load(session, ["serve"], str(folder))
        served = SessionModel(str(folder), session, graph.signature_def)
        return served.run("serve_columns", columns), graph.signature_def["serve_columns"]


def test_a_request_without_a_column_is_one_of_rows_without_it(saved):
    answer, signature = serve(saved[0], monthly_fee=[1.0, 2.0])
    np.testing.assert_allclose(answer["probabilities"], [[0, 1], [0, 1]], atol=1e-6)
    assert set(signature.inputs) == {"age", "monthly_fee", "plan"}
    assert set(signature.defaults) == {"age", "monthly_fee", "plan"}
    assert [dim.size for dim in signature.inputs["age"].tensor_shape.dim] == [-1]


def test_one_row_may_lack_a_value(saved):
    answer, _ = serve(saved[0], age=[50, MISSING_INT], plan=["", "pro"])
    np.testing.assert_allclose(answer["probabilities"][:, 1], [0.5, 1.0], atol=1e-6)
    assert answer["text"].tolist() == [b"no", b"yes"]


def test_values_of_several_targets_are_named(tmp_path):
    model = model_of(lambda x: {"a_xf": x[:, 1:2] * 2, "b_xf": keras.ops.softmax(x)})
    served = {"a_xf": Served("a"), "b_xf": Served("b", ("p", "q", "r"))}
    answer = ask(save(tmp_path, model, served), monthly_fee=[1.5])
    assert set(answer) == {"a/value", "b/probabilities", "b/label", "b/text"}
    assert answer["a/value"].numpy().tolist() == [3.0]
    assert answer["b/text"].numpy().tolist() == [b"p"]


def test_columns_that_are_served_under_one_name_are_refused():
    spec = {"a b": SPEC["age"], "A_b": SPEC["age"]}
    with pytest.raises(
        UsageError, match="columns 'a b' and 'A_b' cannot be told apart when served"
    ):
        serve_columns(model_of(lambda x: x + 0), Graph(), spec, {})


def test_any_names_can_be_served(tmp_path):
    class Sum(tf.Module):
        def __call__(self, raw):
            return {"x": tf.stack([tf.sparse.to_dense(x)[:, 0] for x in raw.values()], axis=1)}

    spec = dict.fromkeys(("_id", "self", "2nd"), tf.io.VarLenFeature(tf.float32))
    served = {"y_xf": Served()}
    module = tf.Module()
    module.model = model_of(lambda x: x[:, 1:2] * 2)
    signature = serve_columns(module.model, Sum(), spec, served)
    tf.saved_model.save(module, str(tmp_path), signatures={"serve_columns": signature})
    answer = tf.saved_model.load(str(tmp_path)).signatures["serve_columns"](
        **{f"column_{name}": tf.constant([3.0]) for name in spec}
    )
    assert answer["value"].numpy().tolist() == [6.0]
