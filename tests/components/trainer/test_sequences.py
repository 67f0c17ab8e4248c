"""Lists of any length and SequenceExamples: read, trained on, exported and served."""

from dataclasses import replace

import keras
import numpy as np
import pytest
import row_files
import tensorflow as tf
import tensorflow_transform as tft
from drawn import slow

from penstock.components.errors import DataError, UsageError
from penstock.components.packing.transformed import stated_columns
from penstock.components.tfrecord.feature_spec import feature_spec
from penstock.components.trainer.export import TransformGraph, export_model
from penstock.components.trainer.input.input import Input
from penstock.components.trainer.input.options import InputOptions
from penstock.components.trainer.loop import train
from penstock.components.trainer.options import TrainOptions
from penstock.components.trainer.serving import Served, serve_columns
from tests.components.trainer.conftest import transform_output

SPEC = {"words": tf.io.RaggedFeature(tf.int64), "label": tf.io.FixedLenFeature([1], tf.float32)}
CONTEXT = {"label": SPEC["label"]}
STEPS = {
    "words": tf.io.FixedLenSequenceFeature([], tf.int64, allow_missing=True),
    "at": tf.io.FixedLenSequenceFeature([2], tf.float32, allow_missing=True),
}
SERVED = {"": Served()}
READING = InputOptions(batch_size=16, seed=1)


def label_of(words):
    return [float(7 in words)]


def example(words, label=label_of):
    """An Example of words, which are ids from 1; the label says whether one of them is 7."""
    return row_files.example(words=words, label=label(words))


def sequence(words, label=label_of):
    """The words as a SequenceExample: each step has a word (`words`) and its place (`at`)."""
    places = [[float(number), float(-number)] for number in range(len(words))]
    steps = [[word] for word in words]
    return row_files.sequence_example({"label": label(words)}, words=steps, at=places)


@pytest.fixture(scope="module")
def rows():
    generator = np.random.default_rng(0)
    return [generator.integers(1, 9, generator.integers(1, 6)).tolist() for _ in range(200)]


@pytest.fixture(scope="module")
def written(rows, tmp_path_factory):
    """A folder with a file of Examples and a file of SequenceExamples."""
    folder = tmp_path_factory.mktemp("rows")
    for make in (example, sequence):
        with tf.io.TFRecordWriter(str(folder / make.__name__)) as file:
            for words in rows:
                file.write(make(words))
    return folder


def build_model():
    keras.utils.set_random_seed(0)
    words = keras.Input((None,), name="words", dtype="int64")
    seen = keras.layers.Embedding(9, 4, mask_zero=True)(words)
    seen = keras.layers.GlobalAveragePooling1D()(seen)
    model = keras.Model({"words": words}, keras.layers.Dense(1, activation="sigmoid")(seen))
    model.compile(keras.optimizers.Adam(0.1), "binary_crossentropy", metrics=["accuracy"])
    return model


def build_recurrent():
    keras.utils.set_random_seed(0)
    words = keras.Input((None,), name="words", dtype="int64")
    at = keras.Input((None, 2), name="at")
    mask = keras.ops.not_equal(words, 0)
    seen = keras.layers.Concatenate()([keras.layers.Embedding(9, 4)(words), at])
    seen = keras.layers.GRU(8)(seen, mask=mask)
    out = keras.layers.Dense(1, activation="sigmoid")(seen)
    model = keras.Model({"words": words, "at": at}, out)
    model.compile(keras.optimizers.Adam(0.05), "binary_crossentropy", metrics=["accuracy"])
    return model


def trained(build, folder, data, evaluation=None, *, spec, **kinds):
    make = Input.rows(data, spec, options=READING, **kinds).train
    options = TrainOptions(max_steps=80)
    return train(build, make, evaluation, options=options, model_run_dir=str(folder))


def test_a_model_of_lists_trains_and_serves_examples_and_columns(rows, written, tmp_path):
    done = trained(build_model, tmp_path, [str(written / "example")], spec=SPEC, label="label")
    assert done.record.epochs[-1].metrics["accuracy"] > 0.9
    columns = serve_columns(done.model, None, {"words": SPEC["words"]}, SERVED)
    where = str(tmp_path / "model")
    export_model(done.model, where, label="label", spec=SPEC, signatures={"serve_columns": columns})
    served = tf.saved_model.load(where).signatures
    some = [[7, 7], [1], [3, 4, 5, 7, 1]]
    expected = [done.model({"words": np.array([words])}).numpy().item() for words in some]
    examples = tf.constant([example(words) for words in some])
    outputs = served["serving_default"](examples)["outputs"]
    np.testing.assert_allclose(outputs[:, 0], expected, rtol=1e-5)
    missing = np.iinfo(np.int64).min
    filled = [words + [missing] * (5 - len(words)) for words in some]
    value = served["serve_columns"](words=tf.constant(filled, tf.int64))["value"]
    np.testing.assert_allclose(value, expected, rtol=1e-5)


@pytest.mark.slow
def test_a_model_of_steps_trains_evaluates_and_serves_sequence_examples(written, tmp_path):
    data, kinds = [str(written / "sequence")], {"label": "label", "feature_lists": STEPS}
    evaluation = Input.rows(data, CONTEXT, options=READING, **kinds).eval()
    done = trained(build_recurrent, tmp_path, data, evaluation, spec=CONTEXT, **kinds)
    assert done.record.epochs[-1].metrics["val_accuracy"] > 0.9
    where = str(tmp_path / "model")
    export_model(done.model, where, spec=CONTEXT, **kinds)
    serve = tf.saved_model.load(where).signatures["serving_default"]
    some = [[7, 7], [1], [3, 4, 5, 7, 1], []]
    answers = serve(tf.constant([sequence(words) for words in some]))
    alone = [serve(tf.constant([sequence(words)])) for words in some]
    # Padding does not change the outputs.
    expected = [one["outputs"].numpy().item() for one in alone]
    np.testing.assert_allclose(answers["outputs"][:, 0], expected, rtol=1e-5)
    assert [value > 0.5 for value in expected[:3]] == [True, False, True]


@pytest.mark.parametrize("make", [slow(example), sequence])
def test_record_without_a_label_is_named_with_its_file(make, tmp_path):
    is_list = make is sequence
    path = str(tmp_path / "data")
    with tf.io.TFRecordWriter(path) as file:
        for number in range(20):
            file.write(make([1, 2, 7], *([lambda _: None] if number == 17 else [])))
    spec, kinds = (CONTEXT, {"feature_lists": STEPS}) if is_list else (SPEC, {})
    build = build_recurrent if is_list else build_model
    place = f"{path}: record 17 does not fit .*[Ff]eature:? label"
    with pytest.raises(DataError, match=place):
        trained(build, tmp_path, [path], spec=spec, label="label", **kinds)


def test_what_does_not_go_with_lists_is_refused(written, tmp_path):
    def read(name, spec, feature_lists):
        data = [str(written / name)]
        Input.rows(data, spec, options=READING, feature_lists=feature_lists).train()

    with pytest.raises(UsageError, match=r"words: in the spec and in feature_lists; a feature be"):
        read("sequence", SPEC, STEPS)
    with pytest.raises(DataError, match="none of the first 1,024 records is a SequenceExample"):
        read("example", CONTEXT, STEPS)
    with pytest.raises(DataError, match="has the feature list 'wrods'; they have at, words besid"):
        read("sequence", CONTEXT, {"wrods": STEPS["words"]})
    kept = replace(READING, cache="memory")
    with pytest.raises(UsageError, match="needs features of fixed length; words may vary"):
        Input.rows([str(written / "example")], SPEC, options=kept).train()
    with pytest.raises(UsageError, match=r"transform takes tf\.train.Examples: give feature_lists"):
        export_model(
            build_model(), str(tmp_path), label=None, transform=object(), feature_lists=STEPS
        )
    with pytest.raises(UsageError, match="words: columns of lists are served of a RaggedFeature"):
        serve_columns(build_model(), None, STEPS, SERVED)


@pytest.mark.slow
def test_ragged_features_of_transform_are_padded_in_training_and_in_serving(tmp_path):
    raw = {"words": tf.io.RaggedFeature(tf.string), "label": SPEC["label"]}

    def preprocessing_fn(inputs):
        ids = tft.compute_and_apply_vocabulary(inputs["words"], num_oov_buckets=1)
        return {"words": ids + 1, "label": inputs["label"]}

    words = ([b"a", b"b"], [b"a"], None)
    rows = [row_files.example(words=some, label=[0.0]) for some in words]
    transform = transform_output(preprocessing_fn, raw, rows, tmp_path)
    schema = transform.transformed_metadata.schema
    kind = tf.io.RaggedFeature(tf.int64, "words$ragged_values")
    assert feature_spec(schema)["words"] == kind
    with pytest.raises(DataError, match="'words' is a RaggedTensor of preprocessing_fn, which is"):
        stated_columns(schema)

    model = build_model()
    columns = serve_columns(model, TransformGraph(transform), {"words": raw["words"]}, SERVED)
    where = str(tmp_path / "model")
    signatures = {"serve_columns": columns}
    export_model(model, where, label="label", transform=transform, signatures=signatures)
    served = tf.saved_model.load(where).signatures
    records = tf.constant([row_files.example(words=[b"b", b"a", b"new"], label=[1.0])])
    features = served["transform_features"](records)
    assert features["words"].numpy().tolist() == [[2, 1, 3]]
    expected = [model({"words": np.array([[2, 1, 3]])}).numpy().item()]
    answer = served["serving_default"](records)["outputs"][0]
    np.testing.assert_allclose(answer, expected, rtol=1e-5)
    texts = tf.constant([["b", "a", "new", ""]])
    np.testing.assert_allclose(served["serve_columns"](words=texts)["value"], expected, rtol=1e-5)
