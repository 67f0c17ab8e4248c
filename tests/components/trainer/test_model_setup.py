import re
import shutil
from contextlib import nullcontext
from types import SimpleNamespace

import keras
import numpy as np
import pytest
import tensorflow as tf

from penstock.components.errors import DataError
from penstock.components.trainer.export import export_model
from penstock.components.trainer.model_setup import make_model, warm_started, weights_digest


@pytest.mark.parametrize(
    ("replicas", "synchronized", "is_told"), [(1, False, False), (2, True, False), (2, False, True)]
)
def test_statistics_of_a_replica_alone_are_told(our_messages, replicas, synchronized, is_told):
    # A real strategy with two devices would need a separate process. This stand-in has only the
    # attributes that the tested code uses.
    strategy = SimpleNamespace(scope=nullcontext, num_replicas_in_sync=replicas)
    norm = keras.layers.BatchNormalization

    def build_model():
        frozen, one = norm(trainable=False), norm(name="one", synchronized=synchronized)
        model = keras.Sequential([keras.Input((2,)), frozen, one, keras.layers.Dense(1)])
        model.compile("sgd", "mse")
        return model

    data = tf.data.Dataset.from_tensors((tf.zeros([1, 2]), tf.zeros([1, 1])))
    make_model(build_model, data, None, strategy)
    message = (
        "one: each of the 2 replicas uses the mean of its own rows; "
        "BatchNormalization(synchronized=True) uses that of all rows"
    )
    assert our_messages() == [message] * is_told


@pytest.mark.parametrize("before", [None, "false"])
def test_memory_growth_is_set_before_tensorflow_opens_a_gpu(penstock, before):
    code = """
        import os, sys
        if sys.argv[1:]: os.environ["TF_FORCE_GPU_ALLOW_GROWTH"] = sys.argv[1]
        else: os.environ.pop("TF_FORCE_GPU_ALLOW_GROWTH", None)
        [sys.modules.pop(name) for name in list(sys.modules) if "penstock.components.tr" in name]
        import penstock
        penstock.training.Input
        print(os.environ["TF_FORCE_GPU_ALLOW_GROWTH"])
    """
    done = penstock.run_code(code, *([before] if before else []))
    assert done.stdout.split() == [before or "true"]


SPEC = {"id": tf.io.FixedLenFeature([1], tf.int64)}


def model(ids=5, units=3):
    inputs = {"id": keras.Input((1,), name="id", dtype="int64")}
    seen = keras.layers.Flatten()(keras.layers.Embedding(ids, 4)(inputs["id"]))
    seen = keras.layers.BatchNormalization()(keras.layers.Dense(units)(seen))
    made = keras.Model(inputs, keras.layers.Dense(1)(seen))
    made.compile("adam", "mse")
    return made


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """A trained model, and a folder with its SavedModel and a graph with the same vocabulary."""
    folder = tmp_path_factory.mktemp("base")
    trained = model()
    trained.fit({"id": np.ones((8, 1))}, np.ones((8, 1)), verbose=0)
    export_model(trained, str(folder / "model"), label=None, spec=SPEC)
    for place in (folder / "model/assets", folder / "graph/transform_fn/assets"):
        place.mkdir(parents=True, exist_ok=True)
        (place / "vocabulary").write_text("red\ngreen\n")
    return trained, folder


def same(one, other):
    """Names of the weights that are equal in both models."""
    pairs = zip(one.weights, other.weights, strict=True)
    return [a.name for a, b in pairs if a.shape == b.shape and np.array_equal(a, b)]


def test_all_weights_but_not_the_optimizer_are_taken(exported, capsys):
    trained, folder = exported
    begun = warm_started(model, str(folder / "model"), str(folder / "graph"))()
    assert len(same(trained, begun)) == len(trained.weights) == 9
    assert int(begun.optimizer.iterations) == 0
    assert capsys.readouterr().out == (f"warm start: 9 of 9 weights are those of {folder}/model\n")


def test_embeddings_are_those_of_another_vocabulary_only_by_chance(exported, tmp_path):
    trained, folder = exported
    shutil.copytree(folder / "graph", tmp_path / "graph")
    (tmp_path / "graph/transform_fn/assets/vocabulary").write_text("green\nred\n")
    begun = warm_started(model, str(folder / "model"), str(tmp_path / "graph"))()
    assert "embeddings" not in same(trained, begun)
    assert not np.array_equal(trained.weights[0], begun.weights[0])
    assert len(same(trained, begun)) == 8


def test_what_has_another_shape_begins_anew_or_is_refused(exported, capsys):
    folder = exported[1]
    of = (lambda: model(ids=6), str(folder / "model"), str(folder / "graph"))
    path = warm_started(*of, partly=True)().weights[0].path
    assert capsys.readouterr().out == (
        f"warm start: 8 of 9 weights are those of {folder}/model; fresh: {path}\n"
    )
    with pytest.raises(DataError, match=r"embeddings is \[5, 4\] there and \[6, 4\] here;"):
        warm_started(*of)()


def test_a_keras_file_and_a_savedmodel_give_the_same_weights(exported, tmp_path):
    trained, folder = exported
    trained.save(tmp_path / "base.keras")
    for base in (tmp_path / "base.keras", folder / "model"):
        assert len(same(trained, warm_started(model, str(base))())) == 9


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("absent", "no such model; expected a SavedModel's folder or a .keras file"),
        ("empty", "the weights cannot be read ("),
        ("broken.keras", "the weights cannot be read ("),
        ("foreign", "a SavedModel that penstock did not export; load it in build_model, or save"),
    ],
)
def test_what_is_no_base_is_said(tmp_path, name, message):
    (tmp_path / "empty").mkdir()
    (tmp_path / "broken.keras").write_text("no zip")
    module = tf.Module()
    module.x = tf.Variable(1.0)
    tf.saved_model.save(module, str(tmp_path / "foreign"))
    with pytest.raises(DataError, match=re.escape(f"{tmp_path}/{name}: {message}")):
        warm_started(model, str(tmp_path / name))()


def test_a_digest_tells_weights_apart(exported, tmp_path):
    folder = exported[1]
    of_model = weights_digest(str(folder / "model"))
    assert len(of_model) == 64
    shutil.copytree(folder / "model", tmp_path / "same")
    assert weights_digest(str(tmp_path / "same")) == of_model
    export_model(model(), str(tmp_path / "other"), label=None, spec=SPEC)
    assert weights_digest(str(tmp_path / "other")) not in ("", of_model)
    assert weights_digest(str(tmp_path / "absent")) == ""


def test_without_a_base_nothing_changes():
    assert warm_started(model, None, "/graph") is model
