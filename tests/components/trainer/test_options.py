import re

import pytest

from penstock.components.errors import UsageError
from penstock.components.trainer.options import EarlyStop, TrainOptions


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_steps": 0}, "`max_steps` must be at least 1, got 0"),
        ({"max_steps": 9, "steps_per_epoch": 0}, "`steps_per_epoch` must be at least 1, got 0"),
        ({"max_steps": 9, "eval_steps": 0}, "`eval_steps` must be at least 1, got 0"),
        (
            {"max_steps": 9, "checkpoint_every_steps": -1},
            "`checkpoint_every_steps` must be at least 0, got -1",
        ),
        (
            {"max_steps": 9, "checkpoint_every_seconds": 0},
            "checkpoint_every_seconds must be greater than 0, got 0",
        ),
        ({}, "give either max_steps or epochs, got max_steps=None and epochs=None"),
        ({"max_steps": 9, "epochs": 2}, "give either max_steps or epochs, got max_steps=9"),
        ({"epochs": 2}, "epochs needs steps_per_epoch"),
    ],
)
def test_a_value_outside_its_range_is_named(options, message):
    with pytest.raises(UsageError, match=re.escape(message)):
        TrainOptions(**options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"mode": "auto"}, "`mode` must be one of min, max, got 'auto'"),
        ({"patience_epochs": 0}, "`patience_epochs` must be at least 1, got 0"),
        ({"min_delta": -0.1}, "`min_delta` must be at least 0, got -0.1"),
        ({"min_delta": float("nan")}, "`min_delta` must be at least 0, got nan"),
    ],
)
def test_an_early_stop_outside_its_range_is_named(options, message):
    with pytest.raises(UsageError, match=re.escape(message)):
        EarlyStop(**options)


@pytest.mark.parametrize(
    ("options", "total_steps", "epoch_steps"),
    [
        ({"max_steps": 10}, 10, 10),
        ({"max_steps": 10, "steps_per_epoch": 4}, 10, 4),
        ({"max_steps": 3, "steps_per_epoch": 4}, 3, 3),
        ({"epochs": 3, "steps_per_epoch": 4}, 12, 4),
    ],
)
def test_steps_and_epochs_follow_from_each_other(options, total_steps, epoch_steps):
    options = TrainOptions(**options)
    assert options.total_steps == total_steps
    assert options.epoch_steps == epoch_steps
