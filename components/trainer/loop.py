"""Trains a model by Keras' `fit`, given the data and a function that builds the model.

Beyond what `fit` does, a training resumes at any step after a kill, stops at a loss that is not
finite, runs on several workers, and measures whether the input limits its speed.
"""

import logging
import re
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, TypeAlias

import keras
import tensorflow as tf

from penstock.components.errors import DataError, UsageError, graph_cause
from penstock.components.trainer.backup import Backup
from penstock.components.trainer.checkpoints import Checkpoints, Saved
from penstock.components.trainer.input.input import damage_in, rows_in
from penstock.components.trainer.input.passes import InputStart
from penstock.components.trainer.interrupt import interrupts
from penstock.components.trainer.model_setup import BuildModel, default_strategy, make_model
from penstock.components.trainer.options import EarlyStop, TrainOptions
from penstock.components.trainer.record import TrainingRecord, write_training_record
from penstock.components.trainer.steps import Steps, distributed, shared_data
from penstock.components.trainer.workers import Workers, join_workers

logger = logging.getLogger(__name__)

# Training batches, or a function that returns batches from `start` on.
TrainData: TypeAlias = tf.data.Dataset | Callable[..., tf.data.Dataset]

# Number of steps that `fit` runs at once if there are no callbacks and `compile` does not set it.
_STEPS_AT_ONCE = 50


@dataclass(frozen=True)
class Trained:
    """A trained model and the record of its training.

    Only a process with `is_chief` should export the model: the chief of several workers, or the
    only process.
    """

    model: keras.Model
    record: TrainingRecord
    is_chief: bool = True
    _checkpoints: Checkpoints | None = None

    def discard_checkpoints(self) -> None:
        """Removes the checkpoints; call it after the model is exported, not before."""
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
    callbacks: Sequence[keras.callbacks.Callback] = (),
) -> Trained:
    """Trains a model, on all workers if TF_CONFIG names several; see `join_workers`.

    Args:
        build_model: Makes and compiles a Keras 3 model. Called once, under the strategy's scope.
            The settings of `compile` apply. Exception: `jit_compile` is turned off if batches
            differ in shape or contain strings, or if there are several replicas.
        train_data: Function such as `Input.rows(...).train`, which takes `start`, an `InputStart`,
            and returns endless batches of `(features, label)`, each for all replicas together. With
            such a function, a training can resume after the rows that were read. With several
            workers, the function also takes `input_context`, and each of its batches is for one
            replica. `train_data` may also be a dataset, which always starts from its beginning.
        eval_data: Dataset that is read after each epoch, to its end or for `options.eval_steps`
            batches; the same for all workers.
        options: Length, early stop and checkpoints.
        model_run_dir: Folder in which the chief writes TensorBoard logs and, at the end,
            `training.json`.
        resume_dir: Folder of the checkpoints, which stay until `discard_checkpoints` removes them.
            A run that finds checkpoints there resumes from the newest complete one, with the same
            result as an uninterrupted run. See `resume_dir()`. If `resume_dir` is None, no
            checkpoints are saved. All workers need the same folder.
        strategy: Distribution strategy; if None, all GPUs are used, or the CPU if there are none.
            With several workers this is ignored: they use `MultiWorkerMirroredStrategy`.
        callbacks: Keras callbacks, which only the chief calls. Callbacks with state start from
            scratch in a resumed training. `compile(steps_per_execution=...)` sets the number of
            steps between two calls of their batch methods; without callbacks, a value of 1 is
            raised to 50.

    Raises:
        DataError: The loss is not finite, the input cannot be read, or a checkpoint cannot be
            written.
        UsageError: The model is not compiled or takes other features than the data has, the metric
            of the early stop does not exist, `train_data` ends or does not support several workers,
            or the input differs from that of the checkpoint.
        TrainingInterruptedError: A worker received SIGTERM or Ctrl-C; the state is saved in
            `resume_dir`.
        WorkerLostError: A worker was lost; all workers resume from the last checkpoint when they
            run again.
    """
    begin = time.perf_counter()
    workers = join_workers()
    with _place_of(workers) as scratch, interrupts() as flag:
        checkpoints = Checkpoints(resume_dir, scratch=scratch) if resume_dir else None
        # All workers must be alive until the end of this block. After it, only the files that the
        # chief writes are kept.
        with workers.watched(options.collective_timeout_seconds) if workers else nullcontext():
            saved, start = _start(checkpoints, workers)
            data = _begun(train_data, start, workers)
            strategy = (
                workers.strategy if workers else strategy or default_strategy(data, eval_data)
            )
            model = make_model(build_model, data, eval_data, strategy)
            fitted = distributed(data, strategy, workers)
            steps = Steps(model, strategy)
            names = steps.build(fitted)
            has_eval = eval_data is not None
            _check_metric(options, names, has_eval=has_eval)
            batch_rows = _batch_rows(data, strategy, workers)
            rule = options.early_stop or EarlyStop(metric="val_loss" if has_eval else "loss")
            backup = Backup(steps, options, checkpoints, start, flag, workers, rule, batch_rows)
            if checkpoints:
                checkpoints.track(model)
            if saved:
                backup.resume(saved)
                logger.info("resumed at step %d of %d", backup.step, options.total_steps)
            boards = () if scratch else (_TensorBoard(model_run_dir, backup), *callbacks)
            if not callbacks and model.steps_per_execution == 1:
                model.steps_per_execution = _STEPS_AT_ONCE
            if backup.stop_reason is None:
                evaluated = eval_data and shared_data(eval_data.take(options.eval_steps or -1))
                with _input_errors_named(backup, data, eval_data):
                    backup.fit(fitted, evaluated, boards)
            speed = backup.speed()
            exported_epoch = backup.restore_best()
            # If the optimizer computes moving averages of the weights, the next line replaces the
            # weights by them. `fit` did this only for its last state, not for a restored one.
            model.optimizer.finalize_variable_values(model.trainable_weights)
            backup.stop_if_interrupted()
            if workers:
                workers.leave_together()
        record = TrainingRecord(
            epochs=tuple(backup.epochs),
            steps=backup.step,
            stopped=backup.stop_reason or "a callback stopped it",
            best_epoch=backup.best.epoch if backup.best else None,
            best_metric=rule.metric,
            exported_epoch=exported_epoch,
            resumed_from=backup.resumed_from,
            replicas=strategy.num_replicas_in_sync,
            input_rows=rows_in(data),
            seconds=time.perf_counter() - begin,
            first_step_seconds=backup.first_step_seconds,
            batch_rows=batch_rows,
            speed=speed,
        )
        write_training_record(scratch or model_run_dir, record)
        backup.stop_if_interrupted()  # for a signal received after the call above
    logger.info("%s", record.verdict)
    return Trained(model, record, scratch is None, checkpoints)


class _TensorBoard(keras.callbacks.TensorBoard):
    """Keras' writer of TensorBoard logs, which also logs the epochs before a resumption."""

    def __init__(self, log_dir: str, backup: Backup) -> None:
        super().__init__(log_dir, write_graph=False)
        self._backup = backup

    def on_train_begin(self, logs: Any = None) -> None:
        super().on_train_begin(logs)
        for epoch in self._backup.epochs:
            self.on_epoch_end(epoch.epoch - 1, dict(epoch.metrics))


@contextmanager
def _place_of(workers: Workers | None) -> Iterator[str | None]:
    """Yields a temporary output folder for a worker that is not the chief; None otherwise."""
    with workers.losses_named() if workers else nullcontext():
        if workers is None or workers.is_chief:
            yield None
            return
        with tempfile.TemporaryDirectory(prefix="penstock-worker-") as scratch:
            yield scratch


def _start(
    checkpoints: Checkpoints | None, workers: Workers | None
) -> tuple[Saved | None, InputStart]:
    """Returns the chief's newest complete checkpoint and its position in the input."""
    is_chief = workers is None or workers.is_chief
    saved = checkpoints.newest() if checkpoints and is_chief else None
    start = saved.start if saved else InputStart()
    if workers is not None:
        step, seed = workers.from_chief([start.step, start.seed])
        if not is_chief:
            saved = checkpoints.at(step) if checkpoints and step else None
            start = saved.start if saved else InputStart(seed=seed)
    return saved, start


def _begun(train_data: TrainData, start: InputStart, workers: Workers | None) -> tf.data.Dataset:
    if callable(train_data):
        share = {"input_context": workers.input_context} if workers else {}
        return train_data(start=start, **share)
    if workers is not None:
        raise UsageError(
            "several workers would all train on the same dataset: give train_data as a function "
            "of their share, Input.rows(...).train"
        )
    if start.step:
        logger.warning(
            "train_data is a dataset, read from its start at step %d; give a function of start, "
            "Input.rows(...).train, to go on where it was",
            start.step,
        )
    return train_data


@contextmanager
def _input_errors_named(backup: Backup, *data: tf.data.Dataset | None) -> Iterator[None]:
    try:
        yield
    except (
        tf.errors.DataLossError,
        tf.errors.InvalidArgumentError,
        tf.errors.UnknownError,
    ) as error:
        if "IteratorGetNext" not in str(error):
            raise
        found = re.search(r"\bDataError: (.+)", error.message)
        cause = (found and found[1]) or damage_in(*data) or graph_cause(error.message)
        raise DataError(f"the input cannot be read after step {backup.step}: {cause}") from error


def _check_metric(options: TrainOptions, names: list[str], *, has_eval: bool) -> None:
    known = sorted(names + [f"val_{name}" for name in names] * has_eval)
    if options.early_stop and options.early_stop.metric not in known:
        raise UsageError(
            f"early_stop.metric {options.early_stop.metric!r} is not reported; "
            f"there are {', '.join(known)}"
        )


def _batch_rows(
    data: tf.data.Dataset, strategy: tf.distribute.Strategy, workers: Workers | None
) -> int | None:
    first = tf.nest.flatten(data.element_spec)[0]
    shares = strategy.num_replicas_in_sync if workers else 1
    return first.shape[0] and first.shape[0] * shares if first.shape.rank else None
