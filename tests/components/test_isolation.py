"""A user's function gets the right columns, even where TensorFlow's optimiser mixes them up."""

import pytest
import tensorflow as tf
from row_files import example
from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

from penstock.components.isolation import isolated

# All columns have the same dtype, because the optimiser changes nothing if the first output has
# another dtype than the other outputs.
DENSE = {name: tf.io.FixedLenFeature([1], tf.float32) for name in "ab"}
RAGGED = {name: tf.io.RaggedFeature(tf.float32) for name in "ab"}
RECORDS = [example(a=[float(i)], b=[float(i + 20)]) for i in (1, 2, 3)]
MINIMA = {"a": -1.0, "b": -21.0}


def negated_maxima(columns):
    flat = {name: getattr(column, "flat_values", column) for name, column in columns.items()}
    return {name: tf.reduce_max(-column) for name, column in flat.items()}


def in_one_function(spec, rows=None):
    def serve(records):
        return isolated(negated_maxima)(tf.io.parse_example(records, spec))

    signature = [tf.TensorSpec([rows], tf.string)]
    return tf.function(serve, input_signature=signature, autograph=False)


def in_a_dataset(records):
    return next(iter(tf.data.Dataset.from_tensors(records).map(in_one_function(DENSE))))


def of_a_batch(records):
    @tf.function(autograph=False)
    def step(batches):
        return isolated(negated_maxima)(next(batches))

    parsed = tf.data.Dataset.from_tensors(records)
    return step(iter(parsed.map(lambda some: tf.io.parse_example(some, DENSE))))


def of_a_functions_outputs(records):
    parse = tf.function(lambda some: tf.io.parse_example(some, DENSE), autograph=False)
    both = tf.function(lambda some: isolated(negated_maxima)(parse(some)), autograph=False)
    return both(records)


@pytest.mark.parametrize(
    "run",
    [
        in_one_function(DENSE),
        in_one_function(DENSE, rows=len(RECORDS)),
        in_one_function(RAGGED),
        in_a_dataset,
        of_a_batch,
        of_a_functions_outputs,
    ],
    ids=["dense", "known rows", "ragged", "dataset", "iterator", "function"],
)
def test_columns_of_one_operation_keep_their_own_values(run):
    found = run(tf.constant(RECORDS))
    assert {name: float(value) for name, value in found.items()} == MINIMA


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    folder = str(tmp_path_factory.mktemp("saved"))
    module = tf.Module()
    module.serve = in_one_function(DENSE)
    tf.saved_model.save(module, folder, signatures={"serve": module.serve})
    return folder


@pytest.mark.parametrize("inlined", [False, True])
def test_columns_keep_their_own_values_in_a_loaded_model_and_in_a_frozen_one(saved, inlined):
    """With `inlined`, all functions are inlined, as TensorRT inlines them."""
    loaded = tf.saved_model.load(saved)
    serve = loaded.signatures["serve"]
    assert {name: float(x) for name, x in serve(tf.constant(RECORDS)).items()} == MINIMA
    frozen = convert_variables_to_constants_v2(serve, aggressive_inlining=inlined)
    assert [float(x) for x in tf.nest.flatten(frozen(tf.constant(RECORDS)))] == [*MINIMA.values()]


def test_columns_keep_their_own_values_in_a_session_of_a_saved_model(saved):
    """TensorFlow Serving runs models in a session."""
    with tf.compat.v1.Session(graph=tf.Graph()) as session:
        model = tf.compat.v1.saved_model.loader.load(session, ["serve"], saved)
        signature = model.signature_def["serve"]
        (records,) = signature.inputs.values()
        outputs = {name: one.name for name, one in signature.outputs.items()}
        assert session.run(outputs, {records.name: RECORDS}) == MINIMA
