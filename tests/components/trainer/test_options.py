"""Options of training and its inputs; tests of the kinds of checks are in `test_limits.py`."""

import re

import pytest

from penstock.components.errors import UsageError
from penstock.components.trainer.input.options import ImageInputOptions, InputOptions
from penstock.components.trainer.options import EarlyStop, TrainOptions

IMAGES = {"batch_size": 5, "height": 2, "width": 2}


@pytest.mark.parametrize(
    ("kind", "options", "message"),
    [
        (TrainOptions, {"max_steps": 0}, "`max_steps` must be at least 1, got 0"),
        (
            TrainOptions,
            {"max_steps": 9, "checkpoint_every_seconds": 0},
            "checkpoint_every_seconds must be greater than 0, got 0",
        ),
        (TrainOptions, {}, "give either max_steps or epochs, got max_steps=None and epochs=None"),
        (TrainOptions, {"epochs": 2}, "epochs needs steps_per_epoch"),
        (EarlyStop, {"mode": "auto"}, "`mode` must be one of min, max, got 'auto'"),
        (InputOptions, {"batch_size": 1.5}, "`batch_size` must be a whole number, got 1.5"),
        (InputOptions, {"batch_size": 8, "cache": "disk"}, "`cache` must be one of none, memory,"),
        (InputOptions, {"batch_size": 8, "seed": 2**63}, "seed must be a 64-bit integer or None"),
        (ImageInputOptions, {**IMAGES, "channels": 4}, "`channels` must be one of 1, 3, got 4"),
        (ImageInputOptions, {**IMAGES, "min_crop_area": 0.0}, "min_crop_area must be within 0..1"),
        (
            ImageInputOptions,
            {**IMAGES, "cache": "memory", "crop": "random"},
            "crop 'random' cuts them differently each time",
        ),
    ],
)
def test_a_value_outside_its_range_is_named(kind, options, message):
    with pytest.raises(UsageError, match=re.escape(message)):
        kind(**options)


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
