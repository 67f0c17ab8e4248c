import os
import time

import keras
import numpy as np
import pytest

from penstock.components.errors import DataError, UsageError
from penstock.components.trainer.checkpoints import Checkpoints, resume_dir
from penstock.components.trainer.input.passes import InputStart
from penstock.components.trainer.record import EpochRecord


def make_model(units=1, dtype="float32"):
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(units, dtype=dtype)])
    model.compile(keras.optimizers.Adam(), loss="mse")
    model.optimizer.build(model.trainable_variables)
    return model


def epochs(count):
    return [
        EpochRecord(n, 4 * n, 4, {"loss": 1 / n}, 0.1, 2.0, 0.5, 100.0) for n in range(1, count + 1)
    ]


def opened(directory, model=None):
    checkpoints = Checkpoints(str(directory))
    checkpoints.track(model or make_model())
    return checkpoints


def at(step):
    return InputStart(step, 5, {"window": 16})


@pytest.fixture
def saved(tmp_path):
    """A folder with checkpoints of steps 4 and 8; all weights and moments equal the step number."""
    model = make_model()
    checkpoints = opened(tmp_path / "resume", model)
    for step in (4, 8):
        for variable in [*model.variables, *model.optimizer.variables]:
            variable.assign(np.full(variable.shape, step))
        checkpoints.save(at(step), epochs(step // 4), best_step=None)
    return tmp_path / "resume"


def test_the_newest_is_restored_with_the_optimizer_and_the_epochs(saved):
    model = make_model()
    checkpoints = opened(saved, model)
    newest = checkpoints.newest()
    assert (newest.start, newest.epochs) == (at(8), tuple(epochs(2)))
    checkpoints.restore(newest)
    for variable in [*model.variables, *model.optimizer.variables]:
        assert (variable.numpy() == 8).all()


DAMAGES = {
    "variables.data-00000-of-00001": [
        lambda content: content[:-10],
        lambda content: b"",
        lambda content: bytes([content[0] ^ 1]) + content[1:],
        lambda content: None,  # the file no longer exists
    ],
    "variables.index": [lambda content: b"not an index"],
    "state.json": [lambda content: b"["],
}


@pytest.mark.parametrize(
    ("name", "damage"), [(name, damage) for name, of in DAMAGES.items() for damage in of]
)
def test_a_damaged_one_falls_back_to_the_one_before(saved, caplog, name, damage):
    newest = saved / "step-00000008"
    content = damage((newest / name).read_bytes())
    (newest / name).unlink()
    if content is not None:
        (newest / name).write_bytes(content)
    model = make_model()
    checkpoints = opened(saved, model)
    found = checkpoints.newest()
    assert (found.start, found.epochs) == (at(4), tuple(epochs(1)))
    checkpoints.restore(found)
    assert (model.weights[0].numpy() == 4).all()
    assert f"{newest}: damaged checkpoint, trying the one before" in caplog.text


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_weights_that_are_not_finite_are_not_resumed(saved, caplog, dtype):
    model = make_model(dtype=dtype)
    checkpoints = opened(saved, model)
    model.weights[0].assign(np.full((2, 1), np.nan))
    checkpoints.save(at(12), epochs(3), best_step=None)
    assert checkpoints.newest().start == at(8)
    assert "model/0/.ATTRIBUTES/VARIABLE_VALUE holds NaN or inf" in caplog.text


def test_one_of_another_model_is_refused(saved):
    message = r"step-00000008: the checkpoint is of another model .* remove .*resume or give"
    checkpoints = opened(saved, make_model(units=3))
    with pytest.raises(DataError, match=message):
        checkpoints.restore(checkpoints.newest())


def test_an_earlier_one_is_restored_by_its_step(saved):
    model = make_model()
    checkpoints = opened(saved, model)
    checkpoints.restore(checkpoints.at(4))
    assert [weight.numpy().tolist() for weight in model.weights] == [[[4.0], [4.0]], [4.0]]
    with pytest.raises(DataError, match="step-00000006: the checkpoint cannot be read"):
        checkpoints.at(6)


def test_a_leftover_of_a_killed_save_is_written_over(tmp_path):
    leftover = tmp_path / ".step-00000002.tmp"
    leftover.mkdir()
    (leftover / "variables.index").write_text("half")
    opened(tmp_path).save(at(2), [], best_step=None)
    assert [path.name for path in tmp_path.iterdir()] == ["step-00000002"]


def test_the_folder_is_beside_the_execution_and_depends_on_the_key():
    first = resume_dir("/root/Trainer/model_run/7", {"files": ["a"], "steps": 3})
    assert first == resume_dir("/root/Trainer/model_run/8/", {"steps": 3, "files": ["a"]})
    assert first.startswith("/root/Trainer/model_run/resume-")
    assert first != resume_dir("/root/Trainer/model_run/7", {"files": ["b"], "steps": 3})
    with pytest.raises(UsageError, match="the key of a resume_dir must be JSON values only"):
        resume_dir("/root/1", {"model": object()})


def test_checkpoints_of_other_options_are_removed_once_they_are_old(tmp_path):
    def saved(number, age_seconds):
        folder = tmp_path / f"resume-{number:016x}"
        checkpoints = opened(folder)
        checkpoints.save(at(2), [], best_step=None)
        when = time.time() - age_seconds
        os.utime(folder / "step-00000002/state.json", (when, when))
        return checkpoints

    saved(1, age_seconds=8 * 24 * 3600)
    saved(2, age_seconds=0)
    (tmp_path / "resume-mine").mkdir()
    saved(3, age_seconds=0).clear()
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"resume-{2:016x}", "resume-mine"]
