"""A function that builds a model, and its data, in; a trained model and its record out.

What Keras' `fit` does, and in addition: resumes after a kill, stops on a loss that is not
finite, tells waiting for input from computing, and runs small models three times as fast.
"""

import logging
import posixpath
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, TypeAlias

import keras
import tensorflow as tf

from penstock.components import activity
from penstock.components.errors import DataError, UsageError
from penstock.components.trainer.checkpoints import Checkpoints
from penstock.components.trainer.epoch_loop import EpochLoop, OnEpoch
from penstock.components.trainer.input.read_errors import damage_in
from penstock.components.trainer.input.start import InputStart
from penstock.components.trainer.interrupt import interrupts
from penstock.components.trainer.limit import measure_limits
from penstock.components.trainer.model_setup import (
    BuildModel,
    check_features,
    check_numbers,
    default_strategy,
    make_model,
    refuse_cluster,
)
from penstock.components.trainer.options import TrainOptions
from penstock.components.trainer.record import (
    RECORD_NAME,
    EpochRecord,
    TrainingRecord,
    write_training_record,
)
from penstock.components.trainer.steps import Steps
from penstock.components.trainer.trackers.options import TrackOptions
from penstock.components.trainer.trackers.tracking import Tracking
from penstock.components.trainer.utilisation.meter import Meter
from penstock.components.trainer.utilisation.monitor import Monitor
from penstock.components.trainer.utilisation.record import (
    UTILISATION_NAME,
    InputFacts,
    Utilisation,
    write_utilisation,
)
from penstock.components.trainer.utilisation.verdict import bottleneck

logger = logging.getLogger(__name__)

# Training batches, or a function that makes them, given `start`, to begin where it says.
TrainData: TypeAlias = tf.data.Dataset | Callable[..., tf.data.Dataset]


@dataclass(frozen=True)
class Trained:
    """A model with its final weights, and how it came to them."""

    model: keras.Model
    record: TrainingRecord
    utilisation: Utilisation
    _checkpoints: Checkpoints | None = None

    def discard_checkpoints(self) -> None:
        """Remove the checkpoints; to be called once the model is exported, not before."""
        if self._checkpoints:
            self._checkpoints.clear()


def train(
    build_model: BuildModel,
    train_data: TrainData,
    eval_data: tf.data.Dataset | None = None,
    *,
    options: TrainOptions,
    model_run_dir: str,
    resume_dir: str | None = None,
    strategy: tf.distribute.Strategy | None = None,
    on_epoch: OnEpoch | None = None,
    input_facts: InputFacts | None = None,
    track: TrackOptions | None = None,
    params: Mapping[str, Any] | None = None,
) -> Trained:
    """Train a model.

    Args:
        build_model: Makes and compiles a Keras 3 model. Called once, under the strategy's scope
            and the precision policy.
        train_data: Makes endless batches of `(features, label)`, one for all replicas together,
            given `start`, an `InputStart`: `functools.partial(train_input_fn, ...)`. A training
            that resumes goes on after the rows it had. Or a dataset, which then begins anew.
        eval_data: One pass over the evaluation rows; read at the end of each epoch.
        options: How long, when to stop, how often to save.
        model_run_dir: Gets the TensorBoard logs and, at the end, `training.json`,
            `utilisation.json` and, where there is a tracker, `tracker.json`.
        resume_dir: Keeps checkpoints until `discard_checkpoints`; a run that finds some goes on
            from the newest whole one, and ends as if there had been no interruption. See
            `checkpoints.resume_dir()`. None saves none.
        strategy: How to share batches among devices; None takes all GPUs, or the one device.
        on_epoch: Called with the record of each epoch that this run ends.
        input_facts: What `train_data` reads, for advice; see `input_facts()`.
        track: The tracker to tell beside TensorBoard; None tells none. Once it is open, its
            failure stops nothing: one line says so, and `tracker.json` keeps it.
        params: Options that the trackers are told beside `options`, as values or mappings.

    Raises:
        DataError: The loss is not finite, the input cannot be read, or the tracker does not open.
        UsageError: The model is not compiled or takes other features, a metric does not exist,
            XLA is asked for on several devices, `train_data` ends, the input is not the one that
            the checkpoint was saved with, or TF_CONFIG names several workers.
        TrainingInterruptedError: SIGTERM or Ctrl-C; the state is saved in `resume_dir`.
    """
    begin = time.perf_counter()
    refuse_cluster()
    strategy = strategy or default_strategy(prefetch_to_device=options.prefetch_to_device)
    checkpoints = Checkpoints(resume_dir, keep=options.keep_checkpoints) if resume_dir else None
    saved = checkpoints.newest() if checkpoints else None
    start = saved.start if saved else InputStart()
    data = _begun(train_data, start)
    model, steps = _steps(build_model, data, eval_data, options, strategy)
    with (
        interrupts() as flag,
        Monitor(begin=begin) as monitor,
        Tracking(track or TrackOptions(), model_run_dir, resume_dir) as tracking,
    ):
        names = steps.build()
        _check_metric(options, names, has_eval=steps.has_eval)
        meter, batch_rows = Meter(monitor, input_facts), _batch_rows(data)
        loop = EpochLoop(
            model, steps, options, checkpoints, start, flag, meter, batch_rows=batch_rows
        )
        if checkpoints:
            checkpoints.track(model)
        if saved:
            loop.resume(saved)
        tracking.begin({**(params or {}), "train": asdict(options)}, loop.epochs)
        stopped = _run(loop, tracking, on_epoch, (data, eval_data))
        exported_epoch = loop.restore_best()
        loop.stop_if_interrupted()
        limits = measure_limits(
            model,
            steps,
            options=options,
            trained_steps=loop.step - (loop.resumed_from or 0),
            seconds_per_step=loop.epochs[-1].seconds_per_step,
            log_dir=posixpath.join(model_run_dir, "train"),
        )
        record = TrainingRecord(
            epochs=tuple(loop.epochs),
            steps=loop.step,
            stopped=stopped,
            best_epoch=loop.best.epoch if loop.best else None,
            best_metric=loop.rule.metric,
            exported_epoch=exported_epoch,
            resumed_from=loop.resumed_from,
            replicas=strategy.num_replicas_in_sync,
            seconds=time.perf_counter() - begin,
            first_step_seconds=loop.first_step_seconds,
        )
        used = meter.record(*limits)
        _write(record, used, model_run_dir, tracking)
    logger.info("%s", bottleneck(record, used))
    return Trained(model, record, used, checkpoints)


def _begun(train_data: TrainData, start: InputStart) -> tf.data.Dataset:
    """The batches from where the training begins."""
    if callable(train_data):
        return train_data(start=start)
    if start.step:
        logger.warning(
            "train_data is a dataset and begins anew at step %d; give a function of the start, "
            "functools.partial(train_input_fn, ...), to go on where it was",
            start.step,
        )
    return train_data


def _steps(
    build_model: BuildModel,
    train_data: tf.data.Dataset,
    eval_data: tf.data.Dataset | None,
    options: TrainOptions,
    strategy: tf.distribute.Strategy,
) -> tuple[keras.Model, Steps]:
    """The model and its steps, once data and options are seen to go with it."""
    model = make_model(build_model, strategy=strategy, mixed_precision=options.mixed_precision)
    if options.xla and strategy.num_replicas_in_sync > 1:
        raise UsageError(
            f"xla compiles for one device, there are {strategy.num_replicas_in_sync} replicas: "
            "train without it, or on one device"
        )
    for data in (train_data, eval_data):
        if data is not None:
            check_features(model, data)
            for option in ("xla", "prefetch_to_device"):
                if getattr(options, option):
                    check_numbers(data, option)
    return model, Steps(model, train_data, eval_data, strategy=strategy, xla=options.xla)


def _write(
    record: TrainingRecord, used: Utilisation, model_run_dir: str, tracking: Tracking
) -> None:
    """Leave the records in the ModelRun, `training.json` last, and with the trackers."""
    write_utilisation(model_run_dir, used)
    write_training_record(model_run_dir, record)
    tracking.file(UTILISATION_NAME, used.to_json())
    tracking.file(RECORD_NAME, record.to_json())


def _run(
    loop: EpochLoop,
    tracking: Tracking,
    on_epoch: OnEpoch | None,
    data: tuple[tf.data.Dataset | None, ...],
) -> str:
    """Run the loop, tell of each epoch, and put the input's failures in one line."""

    def tell(record: EpochRecord) -> None:
        activity.tell(str(record), is_milestone=True)
        tracking.epoch(record)
        if on_epoch:
            on_epoch(record)

    try:
        return loop.run(tell, tracking.metrics)
    except tf.errors.OutOfRangeError as error:
        raise UsageError(
            f"train_data ended after step {loop.step}: it must be endless, as train_input_fn's is"
        ) from error
    except (tf.errors.DataLossError, tf.errors.InvalidArgumentError) as error:
        if "IteratorGetNext" not in str(error):
            raise
        cause = damage_in(*data) or _cause(error.message)
        raise DataError(f"the input cannot be read after step {loop.step}: {cause}") from error


def _check_metric(options: TrainOptions, names: list[str], *, has_eval: bool) -> None:
    """Refuse an early stop on a metric that will never come, before hours of training."""
    known = sorted(names + [f"val_{name}" for name in names] * has_eval)
    if "loss" not in names:
        raise UsageError(f"the model's train_step must report 'loss', it has {', '.join(names)}")
    if options.early_stop and options.early_stop.metric not in known:
        raise UsageError(
            f"early_stop.metric {options.early_stop.metric!r} is not reported; "
            f"there are {', '.join(known)}"
        )


def _batch_rows(data: tf.data.Dataset) -> int | None:
    """Rows of a batch, or None where they are not known beforehand."""
    first = tf.nest.flatten(data.element_spec)[0]
    return first.shape[0] if first.shape.rank else None


def _cause(message: str) -> str:
    """What went wrong, of a message that begins with the graph's traceback and ends with a node."""
    lines = [line.strip() for line in message.splitlines()]
    return [line for line in lines if line and not line.startswith("[[")][-1]
