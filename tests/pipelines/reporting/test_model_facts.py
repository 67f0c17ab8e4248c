"""Size and signatures of a SavedModel."""

import pytest
import tensorflow as tf

from penstock.components.errors import DataError
from penstock.pipelines.reporting.model_facts import gather_model


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A model with a signature for Examples, which doubles `fare`, and one for tensors."""
    module = tf.Module()
    module.weight = tf.Variable([[2.0]])
    module.count = tf.Variable(0, trainable=False)

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string)])
    def serving_default(examples):
        spec = {"fare": tf.io.FixedLenFeature([1], tf.float32)}
        return {"outputs": tf.io.parse_example(examples, spec)["fare"] @ module.weight}

    @tf.function(input_signature=[tf.TensorSpec([None, 1], tf.float32, name="x")])
    def from_tensors(x):
        return {"outputs": x @ module.weight + 7.0}

    folder = tmp_path_factory.mktemp("model") / "Format-Serving"
    signatures = {"serving_default": serving_default, "from_tensors": from_tensors}
    tf.saved_model.save(module, str(folder), signatures)
    return folder.parent


def test_what_a_model_takes_and_gives(model):
    facts = gather_model(str(model))
    assert facts.folder == str(model / "Format-Serving")
    assert facts.parameters == 1
    assert facts.size == sum(f.stat().st_size for f in model.rglob("*") if f.is_file())
    outputs = ["outputs: float32 [batch, 1]"]
    assert [*facts.signatures.items()] == [
        ("serving_default", (["examples: string [batch]"], outputs)),
        ("from_tensors", (["x: float32 [batch, 1]"], outputs)),
    ]


def test_no_saved_model(tmp_path):
    with pytest.raises(DataError, match=r"no saved_model\.pb in it"):
        gather_model(str(tmp_path))
