"""Compares exported models with the trained model on rows transformed as for training."""

import keras
import pytest
import tensorflow as tf
import tensorflow_transform as tft
from drawn import slow
from google.protobuf import text_format
from row_files import example, write_shards
from tensorflow_metadata.proto.v0 import schema_pb2

from penstock.components.batches.analysis import analyze
from penstock.components.batches.shards import shard_tasks
from penstock.components.gates.options import ServingOptions
from penstock.components.gates.serving_check import check_serving
from penstock.components.trainer.export import export_model

ROWS = [example(a=[float(i)], b=[float(i + 20)]) for i in range(1, 9)]
FORM = "type: FLOAT presence { min_fraction: 1 } shape { dim { size: 1 } }"
SCHEMA = text_format.Parse(
    "".join(f'feature {{ name: "{name}" {FORM} }}' for name in "ab"), schema_pb2.Schema()
)
SPEC = {name: tf.io.FixedLenFeature([1], tf.float32) for name in "ab"}


def preprocessing_fn(inputs):
    scaled = {f"{name}_xf": tft.scale_to_0_1(column) for name, column in inputs.items()}
    # The fault of TensorFlow's optimiser (docs/upstream.md) affects the maximum over each row, even
    # in a request of one row.
    roots = {
        f"{name}_root": tf.reduce_max(tf.sqrt(column), axis=1, keepdims=True)
        for name, column in inputs.items()
    }
    return scaled | roots


@pytest.fixture(scope="module")
def graphs(tmp_path_factory):
    """The TransformGraph of `ROWS`, and a TransformGraph of rows with other ranges."""
    made = []
    for name, rows in (("own", ROWS), ("other", [example(a=[0.0], b=[0.0]), *ROWS])):
        folder = tmp_path_factory.mktemp(name)
        tasks = shard_tasks(str(write_shards(folder / "rows", rows)), "train")
        analyze(preprocessing_fn, SCHEMA, str(folder / "graph"), lambda work, t=tasks: map(work, t))
        made.append(str(folder / "graph"))
    return made


@pytest.fixture(scope="module")
def exported(graphs, tmp_path_factory):
    names = ["a_xf", "a_root", "b_xf", "b_root"]
    inputs = {name: keras.Input((1,), name=name) for name in names}
    total = keras.layers.Dense(1, kernel_initializer="ones")(
        keras.layers.Concatenate()([*inputs.values()])
    )
    folder = str(tmp_path_factory.mktemp("model") / "serving")
    transform = tft.TFTransformOutput(graphs[0])
    export_model(keras.Model(inputs, total), folder, label=None, transform=transform)
    return folder


def test_exported_model_answers_as_the_model_does_on_transformed_rows(exported, graphs):
    report = check_serving(exported, ROWS, ServingOptions(), graph=graphs[0])
    assert report.problems == ()
    assert "predict_features" in tf.saved_model.load(exported).signatures


def test_model_with_another_transform_graph_is_named_with_the_feature(exported, graphs):
    [problem] = check_serving(exported, ROWS, ServingOptions(), graph=graphs[1]).problems
    assert problem.startswith("row 0: output 'outputs' is ")
    assert problem.endswith(
        "feature 'a_xf' is 0, and 0.125 in training: export the model with the TransformGraph of "
        "this run"
    )
    assert check_serving(exported, ROWS, ServingOptions(max_skew=2), graph=graphs[1]).problems == ()


@pytest.mark.parametrize("with_layer", [False, slow(True)])
def test_model_as_tfx_exports_it_is_found_where_the_optimiser_changes_it(
    with_layer, graphs, tmp_path
):
    """The parser and the transformation share one function, as in TFX's examples."""
    module = tf.Module()
    module.layer = tft.TFTransformOutput(graphs[0]).transform_features_layer()

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, "examples")])
    def serve(examples):
        parsed = tf.io.parse_example(examples, SPEC)
        features = module.layer(parsed) if with_layer else preprocessed(parsed)
        return {name: features[name] for name in ("a_root", "b_root")}

    def preprocessed(parsed):
        return {
            f"{name}_root": tf.reduce_max(tf.sqrt(column), axis=1, keepdims=True)
            for name, column in parsed.items()
        }

    tf.saved_model.save(module, str(tmp_path), {"serving_default": serve})
    problems = check_serving(str(tmp_path), ROWS, ServingOptions(), graph=graphs[0]).problems
    where = " where Python loads it" if with_layer else ""
    assert problems == (
        "row 0: output 'b_root' is 1, and 4.58258 without TensorFlow's graph optimiser"
        f"{where}; docs/upstream.md describes its fault: pass the parsed features through "
        "tf.ensure_shape",
    )
