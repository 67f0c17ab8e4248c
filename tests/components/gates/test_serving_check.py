"""The node: the blessing that TFX's Pusher reads."""

import json

import pytest
import tensorflow as tf
from row_files import example, write_shards
from tfx.types.standard_artifacts import Examples, InfraBlessing, Model

from penstock.components.errors import UsageError
from penstock.components.gates.options import ServingOptions
from penstock.components.gates.serving_check import ServingCheck
from penstock.components.plain import to_json


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
    """The blessing, and the report in it."""
    model, examples, blessing = Model(), Examples(), InfraBlessing()
    for artifact, name in ((model, "model"), (examples, "examples"), (blessing, "blessing")):
        artifact.uri = f"{root}/{name}"
    examples.split_names = '["eval"]'
    (root / "blessing").mkdir()
    ServingCheck.test_call(
        model=model,
        examples=examples,
        blessing=blessing,
        options=to_json(ServingOptions(**options)),
    )
    return blessing, json.loads((root / "blessing/serving_check.json").read_text())


def test_serving_check_blesses_a_model_that_answers(root, capfd):
    blessing, report = run(root)
    assert blessing.get_int_custom_property("blessed") == 1
    assert (root / "blessing/INFRA_BLESSED").exists()
    assert report["problems"] == []
    assert report["requests"] == 17
    assert "serving check: loads in" in capfd.readouterr().out


def test_serving_check_keeps_a_slow_model_from_the_push(root):
    blessing, report = run(root, max_p99_ms=1e-6)
    assert blessing.get_int_custom_property("blessed") == 0
    assert (root / "blessing/INFRA_NOT_BLESSED").exists()
    assert "expected at most 1e-06" in report["problems"][0]


def test_serving_check_missing_split_is_named(root):
    with pytest.raises(UsageError, match=r"the Examples have no split 'test'; choices: eval"):
        run(root, split="test")
