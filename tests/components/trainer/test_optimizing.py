import keras
import numpy as np
import pytest

from penstock.components.errors import UsageError
from penstock.components.trainer.loop import train
from penstock.components.trainer.options import EarlyStop, TrainOptions


@pytest.fixture
def run(tmp_path, toy):
    def run(optimizer="sgd", *, batch_size=8, resume=False, on_epoch=None, **options):
        def build_model():
            model = toy.build_model()
            model.compile(keras.optimizers.get(optimizer), "binary_crossentropy")
            return model

        return train(
            build_model,
            toy.dataset().unbatch().batch(batch_size).repeat(),
            toy.dataset(),
            options=TrainOptions(**{"max_steps": 12, "steps_per_epoch": 4, **options}),
            model_run_dir=str(tmp_path / "run"),
            resume_dir=str(tmp_path / "resume") if resume else None,
            on_epoch=on_epoch,
        )

    return run


def weights(trained):
    return np.concatenate([w.reshape(-1) for w in trained.model.get_weights()])


@pytest.mark.parametrize(
    ("options", "rates"),
    [
        ({"warmup_steps": 4, "learning_rate_schedule": "cosine"}, [0.01, 0.005, 0]),
        ({"warmup_steps": 8}, [0.005, 0.01, 0.01]),
        ({"learning_rate_schedule": "cosine"}, [0.0075, 0.0025, 0]),
        ({"learning_rate_schedule": "cosine", "mixed_precision": "float16"}, [0.0075, 0.0025, 0]),
    ],
)
def test_the_learning_rate_comes_up_and_down(run, options, rates):
    record = run(**options).record
    assert [epoch.learning_rate for epoch in record.epochs] == pytest.approx(rates, abs=1e-8)


def test_accumulated_gradients_are_those_of_larger_batches(run):
    accumulated = run(gradient_accumulation_steps=2, max_steps=12)
    np.testing.assert_allclose(
        weights(accumulated), weights(run(batch_size=16, max_steps=6)), atol=1e-6
    )


def test_averages_are_evaluated_and_exported(run):
    own = [weights(run(max_steps=steps)) for steps in (1, 2, 3)]
    average = 0.9 * (0.9 * own[0] + 0.1 * own[1]) + 0.1 * own[2]
    trained = run(max_steps=3, steps_per_epoch=1, ema_momentum=0.9)
    np.testing.assert_allclose(weights(trained), average, rtol=1e-5)
    loss = trained.model.evaluate(*everything(), verbose=0, batch_size=8)[0]
    assert trained.record.epochs[-1].metrics["val_loss"] == pytest.approx(loss, rel=1e-5)


def everything():
    x = np.linspace(-1, 1, 32, dtype="float32").reshape(-1, 1)
    return {"x": x}, (x > 0).astype("int64")


def test_the_averages_of_the_best_epoch_come_from_its_checkpoint(run):
    # The loss falls: the epoch with the greatest is the first.
    rule = EarlyStop(metric="val_loss", mode="max", patience_epochs=9)
    options = {"early_stop": rule, "ema_momentum": 0.9}
    whole = run(**options)

    def stop(record):
        if record.epoch == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(**options, resume=True, on_epoch=stop)
    resumed = run(**options, resume=True)
    assert (resumed.record.resumed_from, resumed.record.exported_epoch) == (8, 1)
    np.testing.assert_allclose(weights(resumed), weights(whole), rtol=1e-6)


def test_a_schedule_of_the_models_own_is_not_replaced(run):
    optimizer = keras.optimizers.SGD(keras.optimizers.schedules.CosineDecay(0.1, 10))
    with pytest.raises(UsageError, match="the optimizer of build_model has a learning-rate sched"):
        run(optimizer, warmup_steps=2)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"learning_rate_schedule": "step"}, "must be one of none, cosine, got 'step'"),
        ({"ema_momentum": 1.0}, "ema_momentum must be between 0 and 1, got 1.0"),
        ({"gradient_accumulation_steps": 0}, "must be at least 1, got 0"),
        ({"warmup_steps": -1}, "must be at least 0, got -1"),
    ],
)
def test_options_out_of_range_are_refused(options, message):
    with pytest.raises(UsageError, match=message):
        TrainOptions(max_steps=1, **options)
