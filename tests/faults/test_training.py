"""A training that is killed, told to stop, or left without space for its checkpoints."""

import signal
from pathlib import Path

import numpy as np
import pytest

from tests.components.trainer.conftest import Data

pytestmark = pytest.mark.slow

SCRIPT = Path(__file__).with_name("trained.py")


@pytest.fixture(scope="module")
def whole(tmp_path_factory, penstock):
    """The weights of an uninterrupted training."""
    return trained(penstock, tmp_path_factory.mktemp("whole"))


def trained(penstock, folder):
    if not (folder / "rows").exists():
        Data.write_examples(folder / "rows")
    done = penstock.start(folder, script=str(SCRIPT)).wait()
    assert done.returncode == 0, done.stderr
    return weights(folder)


def weights(folder):
    with np.load(folder / "weights.npz") as arrays:
        return [arrays[name] for name in arrays.files]


def assert_same(found, expected):
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-6)


@pytest.mark.parametrize("how", ["SIGKILL", "SIGTERM"])
def test_an_interruption_before_each_rename_changes_nothing(tmp_path, interrupted, whole, how):
    Data.write_examples(tmp_path / "rows")
    # `place` counts the renames in one run: first those of checkpoints, at the end the record's.
    # Each run begins with the checkpoints that the previous run left.
    for place in (1, 2, 2, 1):
        ended = interrupted(tmp_path, script=SCRIPT, place=place, signal=how)
        if how == "SIGKILL":
            assert ended.returncode == -signal.SIGKILL, ended.stderr
        else:
            assert "TrainingInterruptedError: SIGTERM at step" in ended.stderr, ended
    assert interrupted(tmp_path, script=SCRIPT).returncode == 0
    assert_same(weights(tmp_path), whole)


def test_a_training_goes_on_once_there_is_room(small_disk, penstock, whole):
    Data.write_examples(small_disk.folder / "rows")
    for room in (0, 8192):
        small_disk.leave(room)
        failed = penstock.start(small_disk.folder, script=str(SCRIPT)).wait()
        assert failed.returncode == 1
        assert "No space left on device" in failed.stderr
    small_disk.free()
    assert_same(trained(penstock, small_disk.folder), whole)
