"""The node in a pipeline of stock nodes, before a Pusher, by TFX's own runner."""

import json

import pytest
import tensorflow as tf
from row_files import example, write_shards
from tfx.components import Pusher
from tfx.dsl.components.common.importer import Importer
from tfx.orchestration.local.local_dag_runner import LocalDagRunner
from tfx.orchestration.metadata import sqlite_metadata_connection_config
from tfx.orchestration.pipeline import Pipeline
from tfx.proto import pusher_pb2
from tfx.types.standard_artifacts import Examples, Model

from penstock.components.errors import UsageError
from penstock.components.gates.options import ServingOptions
from penstock.components.gates.serving_check import ServingCheck


@pytest.fixture
def root(tmp_path):
    module = tf.Module()
    spec = {"x": tf.io.FixedLenFeature([1], tf.float32)}
    module.serve = tf.function(
        lambda examples: {"outputs": tf.io.parse_example(examples, spec)["x"]},
        input_signature=[tf.TensorSpec([None], tf.string)],
    )
    tf.saved_model.save(module, f"{tmp_path}/model/Format-Serving", module.serve)
    write_shards(tmp_path / "examples", [example(x=[1.0])] * 20, split="eval")
    return tmp_path


def run(root, **options):
    """What was pushed, and the report."""
    model = Importer(f"{root}/model", Model).with_id("model")
    properties = {"split_names": '["eval"]'}
    examples = Importer(f"{root}/examples", Examples, properties=properties).with_id("examples")
    check = ServingCheck(
        model=model.outputs["result"],
        examples=examples.outputs["result"],
        options=ServingOptions(**options),
    )
    destination = pusher_pb2.PushDestination.Filesystem(base_directory=f"{root}/serving")
    pusher = Pusher(
        model=model.outputs["result"],
        infra_blessing=check.outputs["blessing"],
        push_destination=pusher_pb2.PushDestination(filesystem=destination),
    )
    LocalDagRunner().run(
        Pipeline(
            "p",
            f"{root}/p",
            components=[model, examples, check, pusher],
            metadata_connection_config=sqlite_metadata_connection_config(f"{root}/m.sqlite"),
        )
    )
    (report,) = (root / "p").rglob("serving_check.json")
    return list((root / "serving").glob("*/saved_model.pb")), json.loads(report.read_text())


def test_serving_check_blesses_a_model_that_answers(root, capfd):
    pushed, report = run(root)

    assert len(pushed) == 1
    assert report["problems"] == []
    assert report["requests"] == 17
    assert "serving check: loads in" in capfd.readouterr().out


def test_serving_check_keeps_a_slow_model_from_the_push(root):
    pushed, report = run(root, max_p99_ms=1e-6)

    assert pushed == []
    assert "expected at most 1e-06" in report["problems"][0]


def test_serving_check_missing_split_is_named(root):
    with pytest.raises(UsageError, match=r"the Examples have no split 'test'; choices: eval"):
        run(root, split="test")
