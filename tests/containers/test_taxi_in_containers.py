"""The taxi pipeline in containers: a run, and a repeated run."""

import json

import pytest

pytestmark = [pytest.mark.image, pytest.mark.timeout(1200)]

NODES = {
    "ShardedExampleGen",
    "StatisticsGen",
    "CuratedSchema",
    "ExampleValidator",
    "ValidationGate",
    "Transform",
    "Trainer",
    "Baseline",
    "Evaluator",
    "ServingCheck",
    "Pusher",
}


@pytest.fixture(scope="module")
def compiled(cluster):
    return cluster.compile_taxi("taxi")


@pytest.fixture(scope="module")
def first(cluster, compiled):
    return cluster.run_well(compiled)


@pytest.fixture(scope="module")
def second(cluster, compiled, first):
    return cluster.run_well(compiled)


def test_the_first_run_pushes_a_blessed_model(cluster, first):
    assert first.states == dict.fromkeys(NODES, "COMPLETE")

    assert cluster.on_volume(f"{first.output('Evaluator', 'blessing')}/BLESSED").exists()
    (pushed,) = cluster.on_volume("/penstock/runs/taxi/serving_model").iterdir()
    trained = cluster.on_volume(f"{first.output('Trainer', 'model')}/Format-Serving")
    assert (pushed / "saved_model.pb").read_bytes() == (trained / "saved_model.pb").read_bytes()
    manifest = cluster.on_volume(f"{first.output('ShardedExampleGen', 'examples')}/manifest.json")
    assert json.loads(manifest.read_text())["account"]["read"] == 15_002


def test_the_second_run_is_served_from_tfxs_cache(cluster, first, second):
    assert second.states == {**dict.fromkeys(NODES, "CACHED"), "Baseline": "COMPLETE"}

    assert second.output("Trainer", "model") == first.output("Trainer", "model")
    assert len(list(cluster.on_volume("/penstock/runs/taxi/serving_model").iterdir())) == 1
