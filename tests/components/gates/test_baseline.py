import pytest
from ml_metadata.proto.metadata_store_pb2 import Event
from tfx.components.evaluator import constants
from tfx.types.standard_artifacts import Examples, Model, ModelBlessing

from penstock.components.gates import baseline
from penstock.components.gates.baseline import (
    LatestBlessedOfOtherDataStrategy,
    LatestOtherBlessedModelStrategy,
)


def model(number):
    artifact = Model()
    artifact.id = number
    return artifact


def blessing(number, of, blessed=1):
    artifact = ModelBlessing()
    artifact.id = number
    artifact.set_int_custom_property("current_model_id", of)
    artifact.set_int_custom_property("blessed", blessed)
    return artifact


def ids(resolved):
    return [a.id for a in resolved["model"]], [a.id for a in resolved["model_blessing"]]


@pytest.mark.parametrize(
    ("candidate", "models", "blessings", "expected"),
    [
        (1, [1], [], ([], [])),
        # The second run, with nothing changed: the candidate came from the cache and is blessed.
        (1, [1], [blessing(10, 1)], ([], [])),
        (2, [1, 2], [blessing(10, 1), blessing(11, 2)], ([1], [10])),
        (3, [1, 2, 3], [blessing(10, 1), blessing(11, 2, blessed=0)], ([1], [10])),
        # Model 1 came back from the cache and was blessed again after model 2.
        (3, [1, 2, 3], [blessing(10, 1), blessing(11, 2), blessing(12, 1)], ([1], [12])),
        # Model 2, whose blessing is the latest, is no longer in the store.
        (3, [1, 3], [blessing(10, 1), blessing(11, 2)], ([1], [10])),
    ],
)
def test_baseline(candidate, models, blessings, expected):
    inputs = {"candidate": [model(candidate)], "model": [*map(model, models)]}
    resolved = LatestOtherBlessedModelStrategy().resolve_artifacts(
        None, {**inputs, "model_blessing": blessings}
    )
    assert ids(resolved) == expected
    assert resolved["candidate"] == inputs["candidate"]


class Store:
    """A metadata store in which execution 100 + n made model n from Examples `made_from[n]`."""

    def __init__(self, made_from):
        self.made_from = made_from

    def get_events_by_artifact_ids(self, ids):
        return [Event(execution_id=100 + n, artifact_id=n, type=Event.OUTPUT) for n in ids]

    def get_events_by_execution_ids(self, ids):
        found = [(n, self.made_from[n - 100]) for n in ids]
        return [Event(execution_id=n, artifact_id=of, type=Event.INPUT) for n, of in found]


@pytest.mark.parametrize(
    ("blessings", "expected"),
    [
        ([], ([], [])),
        ([blessing(10, 1), blessing(11, 2)], ([2], [11])),
        # Model 1 was blessed again after model 2: the latest blessing counts, as in the choice of
        # the baseline.
        ([blessing(10, 1), blessing(11, 2), blessing(12, 1)], ([1], [12])),
        # Model 3 was trained on the given Examples.
        ([blessing(10, 1), blessing(11, 3)], ([1], [10])),
    ],
)
def test_base_model(blessings, expected):
    examples = Examples()
    examples.id = 52
    resolved = LatestBlessedOfOtherDataStrategy().resolve_artifacts(
        Store({1: 50, 2: 51, 3: 52}),
        {"model": [*map(model, (1, 2, 3))], "model_blessing": blessings, "examples": [examples]},
    )
    assert (ids(resolved), resolved["examples"]) == (expected, [examples])


def test_blessing_properties_are_those_that_tfx_writes():
    assert baseline.BLESSED == constants.ARTIFACT_PROPERTY_BLESSED_KEY
    assert baseline.BLESSED_VALUE == constants.BLESSED_VALUE
    assert baseline.CURRENT_MODEL_ID == constants.ARTIFACT_PROPERTY_CURRENT_MODEL_ID_KEY
