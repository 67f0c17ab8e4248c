"""A user's function keeps its own columns, where TensorFlow's optimiser sees the parsing, too."""

import pytest
import tensorflow as tf
from row_files import example

from penstock.components.isolation import isolated

SPEC = {name: tf.io.FixedLenFeature([1], tf.float32) for name in "ab"}
RECORDS = [example(a=[float(i)], b=[float(i + 20)]) for i in range(1, 6)]
MINIMA = {"a": -1.0, "b": -21.0}


def negated_maximum(columns):
    return {name: tf.reduce_max(-column) for name, column in columns.items()}


@tf.function(input_signature=[tf.TensorSpec([None], tf.string)], autograph=False)
def in_one_function(records):
    return isolated(negated_maximum)(tf.io.parse_example(records, SPEC))


def in_a_dataset(records):
    return next(iter(tf.data.Dataset.from_tensors(records).map(in_one_function)))


@pytest.mark.parametrize("run", [in_one_function, in_a_dataset])
def test_columns_of_one_parser_keep_their_own_values(run):
    found = run(tf.constant(RECORDS))
    assert {name: float(value) for name, value in found.items()} == MINIMA


def test_columns_keep_their_own_values_in_a_session_of_a_saved_model(tmp_path):
    """TensorFlow Serving runs models so."""
    module = tf.Module()
    module.serve = in_one_function
    tf.saved_model.save(module, str(tmp_path), signatures={"serve": in_one_function})
    with tf.compat.v1.Session(graph=tf.Graph()) as session:
        model = tf.compat.v1.saved_model.loader.load(session, ["serve"], str(tmp_path))
        signature = model.signature_def["serve"]
        (records,) = signature.inputs.values()
        outputs = {name: one.name for name, one in signature.outputs.items()}
        assert session.run(outputs, {records.name: RECORDS}) == MINIMA
