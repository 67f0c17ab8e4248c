"""Trains a model, given a function that builds it and the data.

Does what Keras' `fit` does. It also resumes after a kill, stops at a loss that is not finite,
measures waits for input, and runs small models three times as fast.
"""

import logging
import posixpath
import re
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import asdict, dataclass
from typing import Any, TypeAlias

import keras
import tensorflow as tf

from penstock.components import activity
from penstock.components.errors import DataError, UsageError, graph_cause
from penstock.components.trainer.checkpoints import Checkpoints, Saved
from penstock.components.trainer.epoch_loop import EpochLoop, OnEpoch
from penstock.components.trainer.input.input import damage_in
from penstock.components.trainer.input.start import InputStart
from penstock.components.trainer.interrupt import interrupts
from penstock.components.trainer.limit import LimitSampler
from penstock.components.trainer.model_setup import (
    BuildModel,
    check_features,
    check_numbers,
    default_strategy,
    make_model,
    prefetches_to_device,
    set_memory_growth,
)
from penstock.components.trainer.optimizing import set_up_optimizer
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
from penstock.components.trainer.workers import Workers, join_workers

logger = logging.getLogger(__name__)

# Training batches, or a function that returns batches from `start` on.
TrainData: TypeAlias = tf.data.Dataset | Callable[..., tf.data.Dataset]


@dataclass(frozen=True)
class Trained:
    """A trained model and the record of its training.

    Only a process with `is_chief` should export it: the chief of several workers, or the only one.
    """

    model: keras.Model
    record: TrainingRecord
    utilisation: Utilisation
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
    on_epoch: OnEpoch | None = None,
    input_facts: InputFacts | None = None,
    track: TrackOptions | None = None,
    params: Mapping[str, Any] | None = None,
) -> Trained:
    """Trains a model, on all workers if TF_CONFIG names several; see `join_workers`.

    Args:
        build_model: Makes and compiles a Keras 3 model. Called once, under the strategy's scope
            and the precision policy.
        train_data: Function from `start`, an `InputStart`, to endless batches of
            `(features, label)`, each for all replicas together: `Input.rows(...).train`. It lets a
            training resume after the rows that were read. With several workers it also takes
            `input_context`. Or a dataset, which always starts from its beginning.
        eval_data: A pass over the evaluation rows, the same for all workers; read at the end of
            each epoch.
        options: Length, early stop and checkpoints.
        model_run_dir: Folder in which the chief writes TensorBoard logs and, at the end,
            `training.json`, `utilisation.json` and, with a tracker, `tracker.json`.
        resume_dir: Folder of checkpoints, kept until `discard_checkpoints`. A run that finds one
            resumes from the newest complete one, with the same result as an uninterrupted run. See
            `resume_dir()`. None saves no checkpoints. All workers need the same folder.
        strategy: Distribution strategy; None uses all GPUs, or the only device. Several workers
            always have their own strategy.
        on_epoch: Called by the chief with the record of each epoch that this run finishes.
        input_facts: Facts about the data that `train_data` reads, for advice; see `Input.facts`.
        track: Experiment tracker in addition to TensorBoard; None uses TensorBoard only. If it
            fails once open, training continues; the failure is logged and kept in `tracker.json`.
        params: Further parameters for the trackers, as values or mappings.

    Raises:
        DataError: The loss is not finite, the input cannot be read, or the tracker does not open.
        UsageError: The model is not compiled or takes other features, a metric does not exist,
            XLA is requested on several devices, `train_data` ends or does not support several
            workers, or the input is not the one that the checkpoint was saved with.
        TrainingInterruptedError: Any worker received SIGTERM or Ctrl-C; the state is saved in
            `resume_dir`.
        WorkerLostError: A worker was lost; all resume from the last checkpoint when they run again.
    """
    begin = time.perf_counter()
    if options.gpu_memory_growth:
        set_memory_growth()
    workers = join_workers()
    if workers is not None:
        strategy = workers.strategy
    with (
        _place_of(workers) as scratch,
        interrupts() as flag,
        Monitor(begin=begin) as monitor,
        Tracking(
            track if track and not scratch else TrackOptions(), scratch or model_run_dir, resume_dir
        ) as tracking,
    ):
        model_run_dir = scratch or model_run_dir
        keep = options.keep_checkpoints
        checkpoints = Checkpoints(resume_dir, keep=keep, scratch=scratch) if resume_dir else None
        with _watched(workers, options.collective_timeout_seconds):
            saved, start = _start(checkpoints, workers)
            data = _begun(train_data, start, workers)
            ahead = prefetches_to_device(options.prefetch_to_device, (data, eval_data))
            strategy = strategy or default_strategy(prefetch_to_device=ahead)
            model, steps = _steps(build_model, data, eval_data, options, strategy, workers)
            names = steps.build()
            _check_metric(options, names, has_eval=steps.has_eval)
            meter, batch_rows = Meter(monitor, input_facts), _batch_rows(data, strategy, workers)
            sampler = LimitSampler(
                model, steps, total_steps=options.total_steps, has_workers=workers is not None
            )
            loop = EpochLoop(
                model,
                steps,
                options,
                checkpoints,
                start,
                flag,
                workers,
                meter,
                sampler,
                batch_rows=batch_rows,
            )
            if checkpoints:
                checkpoints.track(model)
            if saved:
                loop.resume(saved)
            tracking.begin({**(params or {}), "train": asdict(options)}, loop.epochs)
            stopped = _run(loop, tracking, None if scratch else on_epoch, (data, eval_data))
            exported_epoch = loop.restore_best()
            loop.stop_if_interrupted()
            profile_dir = posixpath.join(model_run_dir, "train")
            idle_share = sampler.idle_share(options.profile_steps, profile_dir)
            limit = sampler.limit()
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
        used = meter.record(limit, idle_share)
        _write(record, used, model_run_dir, tracking)
        loop.stop_if_interrupted()  # for a signal received since the last step
    logger.info("%s", bottleneck(record, used))
    return Trained(model, record, used, scratch is None, checkpoints)


def _watched(workers: Workers | None, timeout_seconds: float) -> AbstractContextManager[None]:
    """Watches the part that all workers do together; after it, the chief writes on its own."""
    return workers.watched(timeout_seconds) if workers else nullcontext()


@contextmanager
def _place_of(workers: Workers | None) -> Iterator[str | None]:
    """Yields a temporary output folder for a worker that is not the chief; None otherwise."""
    if workers is None:
        yield None
        return
    with workers.losses_named():
        if workers.is_chief:
            yield None
            return
        with tempfile.TemporaryDirectory(prefix="penstock-worker-") as scratch:
            yield scratch


def _start(
    checkpoints: Checkpoints | None, workers: Workers | None
) -> tuple[Saved | None, InputStart]:
    """Returns the chief's newest complete checkpoint and its position in the input."""
    if workers is not None and not workers.is_chief:
        step, seed = workers.from_chief([0, 0])
        saved = checkpoints.at(step) if checkpoints and step else None
        return saved, saved.start if saved else InputStart(seed=seed)
    saved = checkpoints.newest() if checkpoints else None
    start = saved.start if saved else InputStart()
    if workers is not None:
        workers.from_chief([start.step, start.seed])
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
            "train_data is a dataset and begins anew at step %d; give a function of the start, "
            "Input.rows(...).train, to go on where it was",
            start.step,
        )
    return train_data


def _steps(
    build_model: BuildModel,
    train_data: tf.data.Dataset,
    eval_data: tf.data.Dataset | None,
    options: TrainOptions,
    strategy: tf.distribute.Strategy,
    workers: Workers | None,
) -> tuple[keras.Model, Steps]:
    model = make_model(build_model, strategy=strategy, mixed_precision=options.mixed_precision)
    set_up_optimizer(model, options, replicas=strategy.num_replicas_in_sync)
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
    return model, Steps(
        model, train_data, eval_data, strategy=strategy, workers=workers, xla=options.xla
    )


def _write(
    record: TrainingRecord, used: Utilisation, model_run_dir: str, tracking: Tracking
) -> None:
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
    def tell(record: EpochRecord) -> None:
        activity.tell(str(record), is_milestone=True)
        tracking.epoch(record)
        if on_epoch:
            on_epoch(record)

    try:
        return loop.run(tell, tracking.metrics)
    except tf.errors.OutOfRangeError as error:
        raise UsageError(
            f"train_data ended after step {loop.step}: it must be endless, as Input.train's is"
        ) from error
    except (
        tf.errors.DataLossError,
        tf.errors.InvalidArgumentError,
        tf.errors.UnknownError,
    ) as error:
        if "IteratorGetNext" not in str(error):
            raise
        cause = _data_error(error.message) or damage_in(*data) or graph_cause(error.message)
        raise DataError(f"the input cannot be read after step {loop.step}: {cause}") from error


def _check_metric(options: TrainOptions, names: list[str], *, has_eval: bool) -> None:
    known = sorted(names + [f"val_{name}" for name in names] * has_eval)
    if "loss" not in names:
        raise UsageError(f"the model's train_step must report 'loss', it has {', '.join(names)}")
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


def _data_error(message: str) -> str | None:
    found = re.search(r"\bDataError: (.+)", message)
    return found and found[1]
