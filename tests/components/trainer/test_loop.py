import json
import os
import signal

import keras
import numpy as np
import pytest
import tensorflow as tf

from penstock.components.errors import DataError, UsageError
from penstock.components.trainer.input.input import Input, damage_in
from penstock.components.trainer.input.options import InputOptions
from penstock.components.trainer.interrupt import TrainingInterruptedError
from penstock.components.trainer.loop import train
from penstock.components.trainer.options import EarlyStop, TrainOptions
from penstock.components.trainer.record import read_training_record
from penstock.components.trainer.steps import Steps


class Run:
    """Trains the toy model; each call is a new execution with its own output folder."""

    def __init__(self, folder, toy):
        self.root = folder / "model_run"
        self.resume_dir = self.root / "resume-1"
        self.toy = toy
        self.execution = 0

    @property
    def model_run_dir(self):
        return self.root / str(self.execution)

    @property
    def checkpoints(self):
        return sorted(path.name for path in self.resume_dir.glob("*"))

    def __call__(
        self, build_model=None, train_data=None, eval_data=None, resume=True, keep=False,
        callbacks=(), **options,
    ):  # fmt: skip
        self.execution += 1
        trained = train(
            build_model or self.toy.build_model,
            self.toy.dataset().repeat() if train_data is None else train_data,
            self.toy.dataset() if eval_data is None else eval_data,
            options=TrainOptions(**{"epochs": 3, "steps_per_epoch": 4, **options}),
            model_run_dir=str(self.model_run_dir),
            resume_dir=str(self.resume_dir) if resume else None,
            callbacks=callbacks,
        )
        if not keep:
            trained.discard_checkpoints()
        return trained


@pytest.fixture
def run(tmp_path, toy):
    return Run(tmp_path, toy)


def after_epochs(function):
    """Callbacks that call `function` with the number of each epoch, from 1, at its end."""
    return [keras.callbacks.LambdaCallback(on_epoch_end=lambda n, logs: function(n + 1))]


def stop_after(epoch, number=signal.SIGTERM):
    return after_epochs(lambda n: os.kill(os.getpid(), number) if n == epoch else None)


def test_a_model_learns_and_every_epoch_is_recorded(run):
    numbers = []
    record = run(callbacks=after_epochs(numbers.append)).record
    seen = record.epochs
    assert numbers == [1, 2, 3]
    assert [(e.epoch, e.step, e.steps) for e in record.epochs] == [(1, 4, 4), (2, 8, 4), (3, 12, 4)]
    assert set(seen[0].metrics) == {"loss", "accuracy", "val_loss", "val_accuracy"}
    assert seen[2].metrics["val_loss"] < seen[1].metrics["val_loss"] < seen[0].metrics["val_loss"]
    assert seen[2].learning_rate == pytest.approx(0.1)
    assert (record.steps, record.stopped) == (12, "all 12 steps done")
    assert (record.best_metric, record.best_epoch, record.exported_epoch) == ("val_loss", 3, 3)
    assert (record.resumed_from, record.replicas) == (None, 1)
    assert 0 < seen[2].seconds_per_step < record.first_step_seconds < record.seconds
    assert read_training_record(run.model_run_dir) == record


def test_the_metrics_are_those_of_keras(run, toy):
    record = run(epochs=2).record
    model = toy.build_model()
    history = model.fit(
        toy.dataset().repeat(),
        epochs=2,
        steps_per_epoch=4,
        validation_data=toy.dataset(),
        verbose=0,
    ).history
    for name, values in history.items():
        assert [e.metrics[name] for e in record.epochs] == pytest.approx(values, rel=1e-4)


def test_the_last_epoch_may_be_short_and_evaluation_may_be_limited(run, toy):
    # The third evaluation batch is NaN, so an evaluation that is not limited to two batches would
    # fail.
    x = tf.concat([tf.ones([16, 1]), tf.fill([16, 1], np.nan)], 0)
    record = run(max_steps=6, epochs=None, eval_data=toy.dataset(x), eval_steps=2).record
    assert [(e.epoch, e.step, e.steps) for e in record.epochs] == [(1, 4, 4), (2, 6, 2)]


def test_tensorboard_gets_loss_metrics_and_rate(run):
    run()
    tags = {}
    for side in ("train", "validation"):
        (file,) = (run.model_run_dir / side).iterdir()
        events = tf.compat.v1.train.summary_iterator(str(file))
        tags[side] = {(value.tag, event.step) for event in events for value in event.summary.value}
    assert {
        ("epoch_loss", 0),
        ("epoch_loss", 2),
        ("epoch_accuracy", 2),
        ("epoch_learning_rate", 2),
    } <= tags["train"]
    assert ("epoch_loss", 2) in tags["validation"]


def test_checkpoints_are_kept_until_the_end_and_then_removed(run):
    kept = []
    handler = signal.getsignal(signal.SIGTERM)
    run(checkpoint_every_steps=3, callbacks=after_epochs(lambda _: kept.append(run.checkpoints)))
    assert kept == [
        ["step-00000003", "step-00000004"],
        ["step-00000006", "step-00000008"],
        ["step-00000009", "step-00000012"],
    ]
    assert not run.resume_dir.exists()
    assert signal.getsignal(signal.SIGTERM) is handler


def test_a_training_whose_export_failed_is_not_done_again(run):
    first = run(keep=True)
    again = run()
    assert (again.record.resumed_from, again.record.steps) == (12, 12)
    assert again.record.first_step_seconds is None
    for before, after in zip(first.model.get_weights(), again.model.get_weights(), strict=True):
        np.testing.assert_array_equal(before, after)
    assert not run.resume_dir.exists()


def test_an_evaluation_of_nothing_is_refused(run, toy):
    with pytest.raises(DataError, match="eval_data is empty"):
        run(eval_data=toy.dataset().take(0))


@pytest.mark.parametrize("resume", [False, True])
def test_ctrl_c_says_whether_the_state_is_saved(run, resume):
    said = f"saved in {run.resume_dir}; run again" if resume else "nothing is saved, train"
    with pytest.raises(TrainingInterruptedError, match=f"SIGINT at step 4 of 12: {said}"):
        run(resume=resume, callbacks=stop_after(1, signal.SIGINT))


def test_an_evaluation_stops_at_the_end_of_a_call_of_its_own_length(run, monkeypatch):
    # Evaluation batches may take far longer than training batches.
    counts, evaluate = [], Steps.evaluate

    def told(self, batches, count):
        counts.append(count)
        os.kill(os.getpid(), signal.SIGTERM)
        return evaluate(self, batches, count)

    monkeypatch.setattr(Steps, "evaluate", told)
    with pytest.raises(TrainingInterruptedError, match="SIGTERM at step 100 of 200"):
        run(epochs=2, steps_per_epoch=100)
    assert counts == [1]


@pytest.mark.parametrize(("seconds", "kept"), [(1e-9, [5, 6]), (300, [])])
def test_steps_are_saved_by_time(run, seconds, kept):
    class Fail(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            if batch == 5:
                raise InterruptedError

    with pytest.raises(InterruptedError):
        run(epochs=1, steps_per_epoch=9, checkpoint_every_seconds=seconds, callbacks=[Fail()])
    assert run.checkpoints == [f"step-{step:08d}" for step in kept]


def test_the_best_weights_survive_a_resumption(run, toy):
    worse = toy.dataset().map(lambda x, y: (x, 1 - y))
    options = {
        "epochs": 9,
        "eval_data": worse,
        "early_stop": EarlyStop(metric="val_accuracy", mode="max", patience_epochs=4),
    }
    best = run(epochs=1, eval_data=worse).model.get_weights()
    with pytest.raises(TrainingInterruptedError):
        run(**options, callbacks=stop_after(4))
    assert run.checkpoints == ["step-00000004", "step-00000012", "step-00000016"]
    trained = run(**options)
    assert trained.record.stopped == "val_accuracy no better for 4 epochs"
    assert (trained.record.resumed_from, trained.record.exported_epoch) == (16, 1)
    np.testing.assert_array_equal(trained.model.get_weights()[0], best[0])


def test_an_early_stop_on_a_metric_that_is_not_there_is_refused_at_once(run):
    message = "early_stop.metric 'val_auc' is not reported; there are accuracy, loss, val_accuracy"
    with pytest.raises(UsageError, match=message):
        run(early_stop=EarlyStop(metric="val_auc"))


def test_a_loss_that_is_not_finite_stops_at_its_step(run, toy):
    x = tf.reshape(tf.linspace(-1.0, 1.0, 32), [-1, 1])
    poisoned = tf.concat([x[:20], [[np.nan]], x[21:]], 0)
    data = toy.dataset().concatenate(toy.dataset(poisoned)).repeat()
    with pytest.raises(DataError, match="the loss became nan at step 7; nothing is exported"):
        run(train_data=data, checkpoint_every_steps=5)
    kept = sorted(path.name for path in run.resume_dir.iterdir())
    assert kept == ["step-00000004", "step-00000005"]
    assert not (run.model_run_dir / "training.json").exists()


def test_an_evaluation_loss_that_is_not_finite_stops_and_keeps_the_state_before_it(run, toy):
    with pytest.raises(DataError, match="the evaluation loss is nan after step 4") as error:
        run(eval_data=toy.dataset(tf.fill([32, 1], np.nan)))
    saved = run.resume_dir / "step-00000004"
    assert f"the state of step 4 is kept in {saved}" in str(error.value)
    record = run().record
    assert record.resumed_from == 4
    first = record.epochs[0]
    assert (first.epoch, first.step, first.steps) == (1, 4, 4)


def test_training_data_that_ends_is_refused(run, toy):
    # The number of steps in the message varies: steps are counted once per call into TensorFlow,
    # and a call has fewer steps on a slow machine.
    with pytest.raises(UsageError, match=r"train_data ended after step \d+: it must be endless"):
        run(train_data=toy.dataset(), steps_per_epoch=100)


@pytest.mark.slow
def test_a_damaged_record_stops_the_training_and_is_named_with_its_shard(run, tmp_path, data):
    shards = data.write_shards(tmp_path, (40, 40))
    spec = {name: data.spec[name] for name in ("x", "y")}
    source, options = [str(tmp_path / "Split-train" / "*")], InputOptions(batch_size=8, seed=1)
    rows = Input.rows(source, spec, options=options, label="y")
    assert damage_in(rows.train(), rows.eval(), None) is None
    altered = bytearray(shards[1].read_bytes())
    altered[-10] ^= 1
    shards[1].write_bytes(altered)
    with pytest.raises(DataError) as caught:
        run(train_data=rows.train(), max_steps=50, epochs=None, steps_per_epoch=50)
    assert str(caught.value).startswith("the input cannot be read after step ")
    assert f": {shards[1]}: record 39 at offset " in str(caught.value)
    assert str(caught.value).endswith("; the record is damaged")


@pytest.mark.slow
def test_input_that_breaks_is_the_datas_fault(run, tmp_path, toy):
    path = tmp_path / "records"
    with tf.io.TFRecordWriter(str(path)) as writer:
        for _ in range(100):
            writer.write(b"x" * 100)
    path.write_bytes(path.read_bytes()[:-50])
    x = toy.dataset().unbatch().repeat()
    broken = tf.data.Dataset.zip((x, tf.data.TFRecordDataset(str(path)))).map(lambda a, b: a)
    with pytest.raises(
        DataError,
        match=r"the input cannot be read after step \d+: truncated record at 11484' failed",
    ):
        run(train_data=broken.batch(8), steps_per_epoch=100)


def test_features_that_the_model_would_take_by_position_are_refused(run, toy):
    data = toy.dataset().map(lambda x, y: ({"a": x["x"], **x}, y))
    message = r"missing \[\], not taken \['a'\]; give the input functions a spec"
    with pytest.raises(UsageError, match=message):
        run(train_data=data.repeat())


@pytest.mark.parametrize(
    "build_model", [lambda: keras.Sequential([keras.layers.Dense(1)]), lambda: "model"]
)
def test_what_is_no_compiled_model_is_refused(run, build_model):
    with pytest.raises(UsageError, match="must return a compiled model of Keras 3"):
        run(build_model)


def test_a_cluster_of_one_trains(run, monkeypatch):
    monkeypatch.setenv("TF_CONFIG", '{"cluster": {"worker": ["a:1"]}}')
    assert run(epochs=1).record.steps == 4


@pytest.mark.slow
def test_averages_schedule_and_accumulation_are_the_optimizers(run, toy):
    def build_model():
        model = toy.build_model()
        rate = keras.optimizers.schedules.CosineDecay(0.1, 12)
        more = {"use_ema": True, "ema_momentum": 0.5, "gradient_accumulation_steps": 2}
        model.compile(keras.optimizers.SGD(rate, **more), "binary_crossentropy", jit_compile=False)
        return model

    rule = EarlyStop(metric="val_loss", mode="max", patience_epochs=9)  # epoch 1 is the best
    swap = keras.callbacks.SwapEMAWeights
    options = {"early_stop": rule, "resume": True}
    whole = run(build_model, **options, callbacks=[swap()])
    rates = [epoch.learning_rate for epoch in whole.record.epochs]
    assert rates == pytest.approx([0.075, 0.025, 0], abs=1e-8)
    with pytest.raises(TrainingInterruptedError):
        run(build_model, **options, callbacks=[swap(), *stop_after(2)])
    resumed = run(build_model, **options, callbacks=[swap()])
    assert (resumed.record.resumed_from, resumed.record.exported_epoch) == (8, 1)
    for one in (whole, resumed):
        loss = one.model.evaluate(toy.dataset(), verbose=0, return_dict=True)["loss"]
        assert whole.record.epochs[0].metrics["val_loss"] == pytest.approx(loss, rel=1e-5)


def mixed(toy, kind, **compiled):
    """A function that builds the toy model in mixed precision."""

    def build_model():
        before = keras.config.dtype_policy()
        keras.config.set_dtype_policy(f"mixed_{kind}")
        try:
            model = toy.build_model()
            model.compile(keras.optimizers.Adam(0.1), "binary_crossentropy", **compiled)
        finally:
            keras.config.set_dtype_policy(before)
        return model

    return build_model


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["bfloat16", "float16"])
def test_mixed_precision_and_xla_of_the_model_train_as_well(run, toy, kind):
    trained = run(mixed(toy, kind, jit_compile=True))
    losses = [epoch.metrics["val_loss"] for epoch in trained.record.epochs]
    assert losses[2] < losses[0]
    assert {weight.dtype for weight in trained.model.weights} == {"float32"}
    scaled = isinstance(trained.model.optimizer, keras.optimizers.LossScaleOptimizer)
    assert scaled == (kind == "float16")


@pytest.mark.slow
def test_a_loss_that_is_not_finite_stops_in_float16_too(run, toy):
    # With float16, Keras skips every step whose gradients are not finite. If `train` did not check
    # the loss, the training would run to its end without learning.
    data = toy.dataset().map(lambda x, y: (x, tf.fill([8, 1], np.nan)))
    with pytest.raises(DataError, match="the loss became nan at step 1; nothing is exported"):
        run(mixed(toy, "float16", jit_compile=False), train_data=data.repeat())


def test_fit_runs_steps_at_once_unless_a_callback_looks_at_each(run, toy):
    batches = []

    class Look(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            batches.append((batch, set(logs)))

    run(epochs=1, callbacks=[Look()])
    assert batches == [(n, {"loss", "accuracy"}) for n in range(4)]

    def build_model():
        model = toy.build_model()
        model.steps_per_execution = 3
        return model

    batches.clear()
    assert run(build_model, epochs=1, callbacks=[Look()]).record.steps == 4
    assert [batch for batch, _ in batches] == [2, 5]  # Keras counts 3 steps for the last call


@pytest.mark.slow
def test_a_model_that_is_built_by_its_first_batch_trains_and_resumes(run):
    @keras.saving.register_keras_serializable("test")
    class Lazy(keras.Model):
        def __init__(self):
            super().__init__()
            self.dense = keras.layers.Dense(1, activation="sigmoid")

        def call(self, features):
            return self.dense(features["x"])

    def build_model():
        model = Lazy()
        model.compile("adam", "binary_crossentropy", jit_compile=False)
        return model

    with pytest.raises(TrainingInterruptedError):
        run(build_model, callbacks=stop_after(1))
    assert run(build_model).record.resumed_from == 4


@pytest.mark.slow
def test_mlflows_callback_logs_each_epoch(run, tmp_path, monkeypatch):
    import mlflow
    from mlflow.keras import MlflowCallback

    monkeypatch.chdir(tmp_path)  # MLflow keeps artifacts in the working directory
    mlflow.set_tracking_uri(f"sqlite:///{tmp_path}/mlflow.db")
    with mlflow.start_run() as logged:
        record = run(epochs=2, callbacks=[MlflowCallback()]).record
    history = mlflow.MlflowClient().get_metric_history(logged.info.run_id, "val_loss")
    losses = [epoch.metrics["val_loss"] for epoch in record.epochs]
    assert [metric.value for metric in history] == pytest.approx(losses)


# Two devices must be set up before TensorFlow starts.
OTHER_PROCESS = """
    import json, sys
    import tensorflow as tf
    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
    from penstock.components.trainer.loop import train
    from penstock.components.trainer.options import TrainOptions
    from tests.components.trainer.conftest import Toy as toy

    record = train(
        toy.build_model, toy.dataset().repeat(), toy.dataset(),
        options=TrainOptions(epochs=3, steps_per_epoch=4), model_run_dir=sys.argv[1],
        strategy=tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"]),
    ).record
    print(json.dumps([record.replicas, [dict(epoch.metrics) for epoch in record.epochs]]))
"""


@pytest.mark.slow
def test_two_replicas_train_as_one_does(tmp_path, toy, penstock):
    done = penstock.run_code(OTHER_PROCESS, tmp_path)
    assert done.returncode == 0, done.stderr[-2000:]
    replicas, epochs = json.loads(done.stdout.splitlines()[0])
    assert replicas == 2
    alone = Run(tmp_path, toy)().record
    for ours, theirs in zip(epochs, alone.epochs, strict=True):
        assert ours == pytest.approx(dict(theirs.metrics), rel=1e-4)
