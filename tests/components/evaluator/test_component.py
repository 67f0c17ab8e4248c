"""The blessing and the files of BatchEvaluator, and the cases that it leaves to TFX's Evaluator."""

import json
import logging
from pathlib import Path

import pytest
import tensorflow as tf
import tensorflow_model_analysis as tfma
from google.protobuf import text_format
from row_files import artifact
from tensorflow_model_analysis.proto import config_pb2
from tfx.components.evaluator import executor as stock
from tfx.components.util import examples_utils
from tfx.dsl.components.base.base_beam_executor import BaseBeamExecutor
from tfx.proto import example_gen_pb2
from tfx.types.standard_artifacts import Examples, Model, ModelBlessing, ModelEvaluation, Schema
from tfx.utils import proto_utils

from penstock.components.engine.options import local_beam_args
from penstock.components.evaluator import component
from penstock.components.evaluator.component import Executor
from penstock.components.evaluator.evaluation import Evaluation

CONFIG = """
model_specs {{signature_name: "yes" label_key: "label"}}
metrics_specs {{metrics {{class_name: "BinaryAccuracy" {threshold}}}}}
"""
AT_LEAST = "threshold {{value_threshold {{lower_bound {{value: {}}}}}}}"


@pytest.fixture(scope="module")
def model(tmp_path_factory, save_model):
    folder = tmp_path_factory.mktemp("model")
    parsed = {"x": (tf.float32,), "label": (tf.int64,)}
    save_model(folder / "Format-Serving", parsed, yes=lambda f: {"outputs": f["x"][:, None]})
    return artifact(Model, folder)


@pytest.fixture
def do(tmp_path, model, write_examples):
    """A function that runs the executor on three rows, two of them predicted correctly."""
    rows = [{"x": x, "label": y} for x, y in ((0.9, 1), (0.2, 0), (0.8, 0))]
    write_examples(tmp_path / "examples" / "Split-eval", rows)
    examples = artifact(Examples, tmp_path / "examples")
    examples_utils.set_payload_format(examples, example_gen_pb2.FORMAT_TF_EXAMPLE)

    def run(threshold="", beam_args=(), splits=("eval",), **inputs):
        examples.split_names = json.dumps(splits)
        config = text_format.Parse(CONFIG.format(threshold=threshold), config_pb2.EvalConfig())
        blessing = artifact(ModelBlessing, tmp_path / "blessing")
        context = BaseBeamExecutor.Context(beam_pipeline_args=[*local_beam_args(), *beam_args])
        Executor(context).Do(
            {"examples": [examples], "model": [model], **inputs},
            {"evaluation": [artifact(ModelEvaluation, tmp_path / "out")], "blessing": [blessing]},
            {"eval_config": proto_utils.proto_to_json(config), "example_splits": "null"},
        )
        return blessing

    return run


@pytest.mark.parametrize(("least", "file", "value"), [(0.6, "BLESSED", 1), (0.7, "NOT_BLESSED", 0)])
def test_blessing_with_a_threshold_follows_it(least, file, value, do, model, tmp_path):
    blessing = do(AT_LEAST.format(least))
    assert [path.name for path in (tmp_path / "blessing").iterdir()] == [file]
    assert blessing.get_int_custom_property("blessed") == value
    assert blessing.get_string_custom_property("current_model") == model.uri
    assert blessing.get_int_custom_property("current_model_id") == 7
    [(key, metrics)] = tfma.load_eval_result(str(tmp_path / "out")).slicing_metrics
    assert key == ()
    assert metrics[""][""]["binary_accuracy"]["doubleValue"] == pytest.approx(2 / 3)


def test_split_test_is_measured_and_decides_nothing(do, write_examples, tmp_path):
    rows = [{"x": 0.9, "label": 0}] * 3 + [{"x": 0.9, "label": 1}]
    write_examples(tmp_path / "examples" / "Split-test", rows)
    blessing = do(AT_LEAST.format(0.6), splits=["eval", "test"])
    assert blessing.get_int_custom_property("blessed") == 1
    found = Evaluation.read(str(tmp_path / "out"))
    assert (found.rows, found.held_out.rows) == (3, 4)
    assert found.metrics["overall"]["binary_accuracy"] == pytest.approx(2 / 3)
    assert found.held_out.metrics["binary_accuracy"] == 0.25


def test_blessing_with_a_baseline_names_it(do, model, tmp_path):
    blessing = do(AT_LEAST.format(0.6), baseline_model=[model])
    assert blessing.get_string_custom_property("baseline_model") == model.uri
    assert blessing.get_int_custom_property("baseline_model_id") == 7


def test_blessing_without_a_threshold_is_not_written(do, tmp_path):
    do()
    assert not (tmp_path / "blessing").exists()
    assert sorted(path.name for path in Path(tmp_path / "out").iterdir()) == [
        "error_analysis.json",
        "eval_config.json",
        "evaluation.json",
        "metrics-00000-of-00001.tfrecord",
        "plots-00000-of-00001.tfrecord",
        "validations.tfrecord",
    ]


@pytest.mark.parametrize(
    ("threshold", "inputs", "reason"),
    [
        ("", {"schema": [artifact(Schema, "nowhere")]}, "a schema"),
        ('} metrics {class_name: "ExactMatch"', {}, "metrics not known in batches: exact_match"),
    ],
)
def test_what_only_tfma_supports_is_left_to_tfx_and_logged(
    threshold, inputs, reason, do, monkeypatch, caplog, our_messages
):
    caplog.set_level(logging.INFO, logger="penstock")
    done = []
    monkeypatch.setattr(stock.Executor, "Do", lambda self, *of: done.append(of))
    monkeypatch.setattr(component, "write_evaluation", lambda folder: None)
    do(threshold, **inputs)
    assert len(done) == 1
    assert our_messages() == [f"not evaluated in batches but by TFMA's own pipeline: {reason}"]
