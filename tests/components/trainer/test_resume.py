"""Trainings that are killed or told to stop, compared with an uninterrupted one."""

import json
import os
import signal
from functools import partial

import numpy as np
import pytest
import tensorflow as tf

from penstock.components.errors import UsageError
from penstock.components.trainer.checkpoints import Checkpoints
from penstock.components.trainer.interrupt import TrainingInterruptedError
from penstock.components.trainer.loop import train
from penstock.components.trainer.options import EarlyStop, TrainOptions
from tests.components.trainer.conftest import counting_model

pytestmark = pytest.mark.slow

# 103 steps of 10 rows are 10 passes over 103 rows.
OPTIONS = TrainOptions(max_steps=103, steps_per_epoch=40, checkpoint_every_steps=7)


class Killed(Exception):  # noqa: N818
    """Simulates SIGKILL, for tests in which a separate process would take too long."""


def run(folder, data, *, before_save=None):
    """The model and the record of a run; `before_save` is called with the step number."""
    save = Checkpoints.save

    def saved(self, start, epochs, **best):
        if before_save:
            before_save(start.step)
        save(self, start, epochs, **best)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Checkpoints, "save", saved)
        trained = train(
            counting_model,
            data,
            data().take(3),
            options=OPTIONS,
            model_run_dir=str(folder / "run"),
            resume_dir=str(folder / "resume"),
        )
    return trained.model, trained.record


def stopper(step, how):
    left = [how]

    def before_save(at):
        if at == step and left:
            left.pop()()

    return before_save


def sigterm():
    os.kill(os.getpid(), signal.SIGTERM)


def killed():
    raise Killed


@pytest.mark.parametrize("kind", ["rows", "packed", "images"])
def test_no_interruption_changes_what_a_training_comes_to(make_input, tmp_path, kind):
    data = partial(make_input, kind, seed=3)
    whole, record = run(tmp_path / "whole", data)
    assert whole.seen.numpy().tolist() == [10] * 103
    # SIGTERM stops the training at a checkpoint. SIGKILL comes just before the checkpoint of step
    # 77 is saved, so 7 steps are repeated.
    for step, how, error in ((21, sigterm, TrainingInterruptedError), (77, killed, Killed)):
        with pytest.raises(error):
            run(tmp_path / "cut", data, before_save=stopper(step, how))
    model, cut = run(tmp_path / "cut", data)
    assert cut.resumed_from == 70
    assert model.seen.numpy().tolist() == [10] * 103
    for ours, theirs in zip(model.get_weights(), whole.get_weights(), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-6)
    for ours, theirs in zip(cut.epochs, record.epochs, strict=True):
        assert ours.metrics == pytest.approx(dict(theirs.metrics), rel=1e-6)


def test_without_a_seed_one_is_drawn_and_kept(make_input, tmp_path):
    data = partial(make_input, "rows")
    with pytest.raises(Killed):
        run(tmp_path, data, before_save=stopper(56, killed))
    state = json.loads((tmp_path / "resume/step-00000049/state.json").read_text())
    assert state["start"]["seed"] == state["start"]["order"]["seed"]
    model, _ = run(tmp_path, data)
    assert model.seen.numpy().tolist() == [10] * 103


def test_an_evaluation_that_is_given_up_leaves_the_metrics_of_training(make_input, tmp_path):
    data = partial(make_input, "rows", seed=3)
    options = TrainOptions(
        max_steps=60, steps_per_epoch=20, early_stop=EarlyStop(metric="mae", patience_epochs=9)
    )
    arguments = {"options": options, "model_run_dir": str(tmp_path / "run")}
    whole = train(counting_model, data, data().take(3), **arguments).record

    def in_evaluation():
        sigterm()
        yield from data().take(3).as_numpy_iterator()

    evaluation = tf.data.Dataset.from_generator(in_evaluation, output_signature=data().element_spec)
    arguments["resume_dir"] = str(tmp_path / "resume")
    with pytest.raises(TrainingInterruptedError, match="SIGTERM at step 20 of 60"):
        train(counting_model, data, evaluation, **arguments)
    resumed = train(counting_model, data, data().take(3), **arguments).record
    assert resumed.resumed_from == 20
    assert resumed.exported_epoch == whole.exported_epoch
    assert resumed.epochs[0].metrics == pytest.approx(dict(whole.epochs[0].metrics), rel=1e-6)


def goes_on(folder, data, **options):
    """The record of a run without evaluation, which resumes if it finds a checkpoint."""
    return train(
        counting_model,
        data,
        options=TrainOptions(**options),
        model_run_dir=str(folder / "run"),
        resume_dir=str(folder / "resume"),
    ).record


def test_shorter_epochs_of_a_resumed_training_begin_where_it_resumes(make_input, tmp_path):
    data = partial(make_input, "rows", seed=3)
    goes_on(tmp_path, data, max_steps=50, steps_per_epoch=20)
    record = goes_on(tmp_path, data, max_steps=75, steps_per_epoch=10)
    assert record.resumed_from == 50
    assert [(e.epoch, e.step, e.steps) for e in record.epochs] == [
        (1, 20, 20), (2, 40, 20), (3, 50, 10), (4, 60, 10), (5, 70, 10), (6, 75, 5),
    ]  # fmt: skip


def test_fewer_steps_than_the_checkpoint_has_are_refused(make_input, tmp_path):
    data = partial(make_input, "rows", seed=3)
    goes_on(tmp_path, data, max_steps=20)
    with pytest.raises(UsageError, match=r"step-00000020: the checkpoint has 20 steps, .* the 15 "):
        goes_on(tmp_path, data, max_steps=15)
    assert goes_on(tmp_path, data, max_steps=25).steps == 25
