import pytest
from tfx.types.standard_artifacts import Model, ModelBlessing

from penstock.components.gates.baseline import LatestOtherBlessedModelStrategy


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


def resolve(candidate, models, blessings):
    resolved = LatestOtherBlessedModelStrategy().resolve_artifacts(
        None,
        {
            "candidate": [model(candidate)],
            "model": [model(number) for number in models],
            "model_blessing": blessings,
        },
    )
    assert [artifact.id for artifact in resolved["candidate"]] == [candidate]
    return [a.id for a in resolved["model"]], [a.id for a in resolved["model_blessing"]]


@pytest.mark.parametrize(
    ("candidate", "models", "blessings", "expected"),
    [
        (1, [1], [], ([], [])),
        # The unchanged second run: the candidate came from the cache and is blessed.
        (1, [1], [blessing(10, 1)], ([], [])),
        (2, [1, 2], [blessing(10, 1)], ([1], [10])),
        (2, [1, 2], [blessing(10, 1), blessing(11, 2)], ([1], [10])),
        (3, [1, 2, 3], [blessing(10, 1), blessing(11, 2, blessed=0)], ([1], [10])),
        # Model 1 came back from the cache and was blessed again after model 2.
        (3, [1, 2, 3], [blessing(10, 1), blessing(11, 2), blessing(12, 1)], ([1], [12])),
        # A blessing whose model is gone from the store.
        (3, [1, 3], [blessing(10, 1), blessing(11, 2)], ([1], [10])),
    ],
)
def test_baseline(candidate, models, blessings, expected):
    assert resolve(candidate, models, blessings) == expected
