import keras
import numpy as np
import pytest
import tensorflow as tf
import tensorflow_transform as tft
from row_files import example

from penstock.components.errors import DataError, UsageError
from penstock.components.gates.options import ServingOptions
from penstock.components.gates.serving_check import check_serving
from penstock.components.trainer.export import TransformGraph, export_model
from tests.components.trainer.conftest import transform_output

RAW = {
    "size": tf.io.FixedLenFeature([1], tf.float32),
    "color": tf.io.FixedLenFeature([1], tf.string),
    "sold": tf.io.FixedLenFeature([1], tf.float32),
}


def raw_example(**values):
    return example(**{name: [value] for name, value in values.items()})


@pytest.fixture(scope="module")
def transform(tmp_path_factory):
    """A TransformGraph with a vocabulary, and with a feature that the model does not take."""
    colors = (b"red", b"red", b"green")
    rows = [raw_example(size=1.0, color=color, sold=0.0) for color in colors]

    def preprocessing_fn(inputs):
        return {
            "another_xf": inputs["size"] + 100,
            "color_xf": tft.compute_and_apply_vocabulary(inputs["color"], num_oov_buckets=1),
            "size_xf": inputs["size"] / 2,
            "sold_xf": tf.cast(inputs["sold"] > 0, tf.int64),
        }

    return transform_output(preprocessing_fn, RAW, rows, tmp_path_factory.mktemp("transform"))


def make_model():
    """A model whose output is `size_xf + 10 * color_xf`."""
    inputs = {
        "size_xf": keras.Input((1,), name="size_xf"),
        "color_xf": keras.Input((1,), name="color_xf", dtype="int64"),
    }
    scaled = keras.ops.cast(inputs["color_xf"], "float32") * 10
    dense = keras.layers.Dense(1, kernel_initializer="ones", name="dense")
    return keras.Model(inputs, dense(inputs["size_xf"]) + scaled)


def served(folder, model, *records, signature="serving_default", **how):
    """The answer of a signature of the exported model."""
    export_model(model, str(folder / "model"), **how)
    serve = tf.saved_model.load(str(folder / "model")).signatures[signature]
    return {name: value.numpy().tolist() for name, value in serve(tf.constant(records)).items()}


def test_serving_takes_raw_records_without_the_label(transform, tmp_path):
    target = tmp_path / "model" / "1" / "Format-Serving"
    export_model(make_model(), str(target), label="sold", transform=transform)
    serve = tf.saved_model.load(str(target)).signatures["serving_default"]
    examples = [
        raw_example(size=4.0, color=b"green"),
        raw_example(size=6.0, color=b"blue", sold=1.0),
    ]
    assert serve(tf.constant(examples))["outputs"].numpy().tolist() == [[12.0], [23.0]]
    assert serve(examples=tf.constant(examples[:0], tf.string))["outputs"].shape == (0, 1)
    assert [path.name for path in target.parent.iterdir()] == ["Format-Serving"]


def test_a_model_of_parsed_columns_keeps_each_ones_own_value(tmp_path):
    """Without `isolated`, both outputs would get the values of one column (docs/upstream.md)."""
    inputs = {name: keras.Input((1,), name=name) for name in ("a", "b")}
    roots = [keras.ops.max(keras.ops.sqrt(x), axis=1, keepdims=True) for x in inputs.values()]
    model = keras.Model(inputs, dict(zip(("root of a", "root of b"), roots, strict=True)))
    labels = ["sold", "price"]  # requests have no labels
    spec = dict.fromkeys(("a", "b", *labels), RAW["sold"])
    answer = served(tmp_path, model, raw_example(a=4.0, b=25.0), label=labels, spec=spec)
    assert answer == {"root of a": [[2.0]], "root of b": [[5.0]]}


@pytest.mark.parametrize("policy", ["mixed_bfloat16", "mixed_float16"])
def test_a_model_of_mixed_precision_serves_float32(transform, tmp_path, policy):
    keras.config.set_dtype_policy(policy)
    try:
        size = keras.Input((1,), name="size_xf")
        dense = keras.layers.Dense(1, kernel_initializer="ones")
        model = keras.Model({"size_xf": size}, dense(size))
    finally:
        keras.config.set_dtype_policy("float32")
    assert model.output.dtype == policy.removeprefix("mixed_")
    export_model(model, str(tmp_path / "model"), label="sold", transform=transform)
    serve = tf.saved_model.load(str(tmp_path / "model")).signatures["serving_default"]
    served = serve(tf.constant([raw_example(size=4.0, color=b"green")]))["outputs"]
    assert served.dtype == tf.float32
    assert served.numpy().tolist() == [[2.0]]


def test_a_model_server_finds_every_variable(tmp_path):
    """Model servers run the graph in a session, where copies of Keras' variables have no value."""
    lookup = keras.layers.StringLookup(vocabulary=["green", "red"])
    color = keras.Input((1,), name="color", dtype="string")
    seen = keras.layers.Flatten()(keras.layers.Embedding(3, 4)(lookup(color)))
    seen = keras.layers.BatchNormalization()(keras.layers.Dropout(0.5)(seen))
    model = keras.Model({"color": color}, keras.layers.Dense(1)(seen))
    # TensorFlow cannot save an optimizer with a schedule, so the export must leave the optimizer
    # out.
    rate = keras.optimizers.schedules.CosineDecay(0.01, 9)
    model.compile(keras.optimizers.Adam(rate), "mse", metrics=["mae"])
    colors = tf.constant([["red"], ["green"]])
    model.fit({"color": colors}, np.zeros((2, 1)), verbose=0)
    target = str(tmp_path / "served")
    spec = {"color": tf.io.FixedLenFeature([1], tf.string)}
    export_model(model, target, label=None, spec=spec)

    rows = [raw_example(color=color) for color in (b"red", b"green")]
    report = check_serving(target, rows, ServingOptions())
    assert (report.problems, report.requests) == ((), 2)
    serve = tf.saved_model.load(target).signatures["serving_default"]
    expected = model({"color": colors}, training=False).numpy()
    assert np.allclose(serve(tf.constant(rows))["outputs"].numpy(), expected)
    names = [name for name, _ in tf.train.list_variables(f"{target}/variables/variables")]
    assert not any("optimizer" in name for name in names)


def test_the_model_brings_its_vocabulary_along(transform, tmp_path):
    export_model(make_model(), str(tmp_path / "model"), label="sold", transform=transform)
    (vocabulary,) = (tmp_path / "model" / "assets").iterdir()
    assert vocabulary.read_text().split() == ["red", "green"]
    vocabulary.write_text("green\nred\n")
    serve = tf.saved_model.load(str(tmp_path / "model")).signatures["serving_default"]
    assert (
        serve(tf.constant([raw_example(size=0.0, color=b"green")]))["outputs"].numpy().item() == 0.0
    )


def test_transform_features_gives_the_label_too(transform, tmp_path):
    record = raw_example(size=4.0, color=b"green", sold=1.0)
    how = {"signature": "transform_features", "label": "sold", "transform": transform}
    assert served(tmp_path, make_model(), record, **how) == {
        "another_xf": [[104.0]],
        "color_xf": [[1]],
        "size_xf": [[2.0]],
        "sold_xf": [[1]],
    }


def test_the_graph_knows_which_raw_features_are_needed(transform):
    graph = TransformGraph(transform)
    assert graph.needed_for(["size_xf", "another_xf"]) == {"size"}
    assert graph.needed_for(["size_xf", "color_xf"]) == {"size", "color"}


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_weights_that_are_not_finite_are_refused(transform, tmp_path, value):
    model = make_model()
    model.get_layer("dense").kernel.assign([[value]])
    with pytest.raises(DataError, match="weight 'dense/kernel' has 1 of 1 values that are NaN"):
        export_model(model, str(tmp_path / "model"), label="sold", transform=transform)
    assert list(tmp_path.iterdir()) == []


def test_a_place_that_holds_something_is_refused(transform, tmp_path):
    (tmp_path / "saved_model.pb").touch()
    with pytest.raises(DataError, match="already holds files; export to an empty place"):
        export_model(make_model(), str(tmp_path), label="sold", transform=transform)


def test_an_empty_place_and_a_leftover_are_used(transform, tmp_path):
    (tmp_path / "model").mkdir()
    (tmp_path / ".model.tmp").mkdir()
    (tmp_path / ".model.tmp" / "saved_model.pb").touch()
    export_model(make_model(), str(tmp_path / "model"), label="sold", transform=transform)
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_arguments_that_do_not_go_together_are_refused(transform, tmp_path):
    with pytest.raises(UsageError, match="export needs either transform or spec"):
        export_model(make_model(), str(tmp_path / "model"), label="sold")
    with pytest.raises(UsageError, match="label 'price' is not a feature; there are color"):
        export_model(make_model(), str(tmp_path / "model"), label="price", transform=transform)
