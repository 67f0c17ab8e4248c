"""The requests that a page offers, carried out against the SavedModel."""

import base64
import contextlib
import gzip
import io
import json

import pytest
import tensorflow as tf

from penstock.components.errors import DataError
from penstock.pipelines.reporting.model_facts import (
    TensorSpec,
    find_saved_model,
    gather_model,
    make_request,
)


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A model that doubles `fare`, from Examples and from tensors."""
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


@pytest.fixture
def examples(runs, tmp_path):
    row = runs.example(fare=2.5, kind=b"it's \xff", tips=1)
    runs.write_records(tmp_path / "examples/Split-train/a", [row])
    runs.write_records(tmp_path / "examples/Split-eval/a", [row])
    return str(tmp_path / "examples")


def printed(program):
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(program, "request", "exec"), {})
    return out.getvalue()


def test_what_a_model_takes_and_gives(model):
    facts = gather_model(str(model))
    assert facts.folder == str(model / "Format-Serving")
    assert facts.parameters == 1
    assert facts.size == sum(f.stat().st_size for f in model.rglob("*") if f.is_file())
    assert [s.name for s in facts.signatures] == ["serving_default", "from_tensors"]
    serving, tensors = facts.signatures
    assert serving.inputs == [TensorSpec("examples", "string", (None,))]
    assert tensors.inputs == [TensorSpec("x", "float32", (None, 1))]
    assert tensors.outputs == [TensorSpec("outputs", "float32", (None, 1))]


def test_the_program_asks_with_a_row_from_its_shard(model, examples):
    facts = gather_model(str(model))
    request = make_request(facts.signatures[0], facts.folder, examples)
    assert "[[5.]]" in printed(request.python)
    assert f"{examples}/Split-eval/a" in request.python


def test_a_shard_may_be_compressed(model, runs, tmp_path):
    shard = tmp_path / "examples/Split-train/a"
    runs.write_records(shard, [runs.example(fare=2.5)])
    shard.with_name("a.gz").write_bytes(gzip.compress(shard.read_bytes()))
    shard.unlink()
    facts = gather_model(str(model))
    request = make_request(facts.signatures[0], facts.folder, str(tmp_path / "examples"))
    assert "[[5.]]" in printed(request.python)


def test_the_rest_body_asks_the_same(model, examples):
    facts = gather_model(str(model))
    body = json.loads(make_request(facts.signatures[0], facts.folder, examples).rest)
    assert body["signature_name"] == "serving_default"
    [instance] = body["instances"]
    record = base64.b64decode(instance["examples"]["b64"])
    loaded = tf.saved_model.load(facts.folder)
    assert loaded.signatures["serving_default"](tf.constant([record]))["outputs"].numpy() == 5.0


def test_a_large_record_is_no_text_to_copy(model, runs, tmp_path):
    row = runs.example(fare=2.5, image=b"x" * 5000)
    runs.write_records(tmp_path / "examples/Split-train/a", [row])
    facts = gather_model(str(model))
    request = make_request(facts.signatures[0], facts.folder, str(tmp_path / "examples"))
    assert "[[5.]]" in printed(request.python)
    assert request.rest is None


def test_without_a_row_nothing_is_made_up(model, tmp_path):
    facts = gather_model(str(model))
    assert make_request(facts.signatures[0], facts.folder, str(tmp_path)) is None


def test_a_signature_of_tensors_is_not_asked(model, examples):
    facts = gather_model(str(model))
    assert make_request(facts.signatures[1], facts.folder, examples) is None


def test_no_saved_model(tmp_path):
    with pytest.raises(DataError) as error:
        find_saved_model(str(tmp_path))
    assert str(error.value) == f"{tmp_path}: no saved_model.pb in it"
