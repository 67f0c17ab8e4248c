"""The whole digits pipeline on the command line, and one of its nodes as in a container."""

import json
from pathlib import Path

import numpy as np
import pytest
from shared_runs import states
from sklearn.datasets import load_digits

pytestmark = pytest.mark.slow

WORDS = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]


@pytest.fixture(scope="module")
def first(digits_run):
    """The summary of the first run."""
    return digits_run.summary


@pytest.fixture(scope="module")
def root(digits_run):
    return digits_run.root


@pytest.fixture(scope="module")
def pushed(first):
    import tensorflow as tf

    return tf.saved_model.load(first["pushed"])


@pytest.fixture(scope="module")
def served(pushed, root):
    """Outputs of the signature `serve_images` for all image files."""
    import tensorflow as tf

    files = sorted((root / "data/images").iterdir())
    encoded = tf.constant([file.read_bytes() for file in files])
    return {k: v.numpy() for k, v in pushed.signatures["serve_images"](encoded).items()}


def test_run_trains_a_good_model_and_pushes_it(first, root):
    assert set(states(first).values()) == {"done"}
    assert first["data"]["account"]["read"] == 1797
    assert first["anomalies"] == []
    metrics = first["evaluation"]["metrics"]
    assert metrics["overall"]["sparse_categorical_accuracy"] >= 0.97
    assert set(metrics) == {"overall", *(f"image/class/text={word}" for word in WORDS)}
    assert first["blessed"] is True
    assert Path(first["pushed"]).parent == root / "serving_model"


def test_pushed_model_serves_image_files(served):
    digits = load_digits().target
    assert served["probabilities"].shape == (1797, 10)
    np.testing.assert_allclose(served["probabilities"].sum(axis=1), 1, atol=1e-5)
    assert (served["label"] == digits).mean() > 0.97
    assert served["text"].tolist() == [WORDS[label].encode() for label in served["label"]]


def test_serving_and_evaluation_predict_the_same(first, pushed, served):
    import tensorflow as tf

    found, right = {}, 0
    for shard in sorted(Path(first["examples"]).glob("Split-eval/*")):
        records = [r.numpy() for r in tf.data.TFRecordDataset(str(shard))]
        outputs = pushed.signatures["serving_default"](tf.constant(records))["outputs"].numpy()
        for record, output in zip(records, outputs, strict=True):
            feature = tf.train.Example.FromString(record).features.feature
            name = feature["image/filename"].bytes_list.value[0].decode()
            found[int(Path(name).stem)] = output
            right += int(output.argmax()) == feature["image/class/label"].int64_list.value[0]
    assert len(found) == first["data"]["account"]["written"]["eval"]
    for number, output in found.items():
        np.testing.assert_allclose(output, served["probabilities"][number], atol=1e-6)
    accuracy = first["evaluation"]["metrics"]["overall"]["sparse_categorical_accuracy"]
    assert right / len(found) == pytest.approx(accuracy)


def test_run_with_another_network_reuses_the_data(digits_run):
    again = digits_run.run_well(
        *("model.application=MobileNet", "model.train_base=true"),
        *("input.height=32", "input.width=32", "train.max_steps=4", "train.steps_per_epoch=2"),
        *("model.augment.flip_horizontal=true", "must_beat=null"),
    )
    assert again["training"]["steps"] == 4
    trained = ("Trainer", "Evaluator", "ServingCheck", "Pusher")
    assert {n for n, state in states(again).items() if state == "done"} <= set(trained)
    assert states(again)["Trainer"] == "done"
    assert again["blessed"] is False  # after four steps from random weights
    assert again["pushed"] is None


def test_container_writes_the_digits_itself(tmp_path, penstock):
    import yaml

    from penstock.pipelines.kubeflow.node import launch_node
    from penstock.pipelines.kubeflow.recipe import Recipe
    from penstock.pipelines.runs.metadata_store import SqliteStore

    volume = tmp_path / "volume"
    (tmp_path / "placement.yaml").write_text(
        f"pipeline_root: {volume}/runs\nmetadata_sqlite: {volume}/metadata.sqlite\n"
        f"volume: {{claim: penstock, mount_path: {volume}}}\n"
    )
    done = penstock(
        *("compile", "digits", "--image", "registry.example/penstock@sha256:" + "0" * 64),
        *("--placement", tmp_path / "placement.yaml", "--out", tmp_path / "digits.yaml"),
    )
    assert done.returncode == 0, done.stderr
    assert not volume.exists()  # compiling writes nothing to the volume
    compiled, _ = yaml.safe_load_all((tmp_path / "digits.yaml").read_text())
    executors = compiled["deploymentSpec"]["executors"]
    ir, _ = Recipe.from_text(executors["exec-digitsexamplegen"]["container"]["args"][-1]).build([])
    volume.mkdir()
    result = launch_node(
        ir, "DigitsExampleGen", run_id="one", store=SqliteStore(str(volume / "metadata.sqlite"))
    )
    [examples] = result.outputs["examples"]
    manifest = json.loads((Path(examples.uri) / "manifest.json").read_text())
    assert manifest["account"]["read"] == 1797
    assert (volume / "runs/digits/data/labels.csv").exists()
