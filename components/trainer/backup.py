"""Keras callback that saves a training, resumes it, and stops it at a signal or a bad loss.

It also gives `fit` its train and test functions. Both split the steps that `fit` runs at once
(`steps_per_execution`) into calls of about 0.2 s; after each call, a training can stop. If a
training resumes in the middle of an epoch, `fit` counts the steps from the start of the epoch, and
the train function skips those that were already done.
"""

import logging
import math
import time
import warnings
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from penstock.components.activity import tell
from penstock.components.errors import DataError, UsageError, counted, short_error
from penstock.components.trainer.checkpoints import Checkpoints, Saved
from penstock.components.trainer.input.passes import InputStart
from penstock.components.trainer.interrupt import InterruptFlag, TrainingInterruptedError
from penstock.components.trainer.options import EarlyStop, TrainOptions
from penstock.components.trainer.record import EpochRecord, best_epoch, should_stop
from penstock.components.trainer.steps import Logs, Steps
from penstock.components.trainer.utilisation.speed import CALL_SECONDS, Meter
from penstock.components.trainer.utilisation.verdict import Speed
from penstock.components.trainer.workers import Workers

logger = logging.getLogger(__name__)


class DivergedError(DataError):
    """The loss is not finite."""


class Backup(keras.callbacks.Callback):
    """The state of a training; `step` and `epochs` include the part before a resumption.

    It must be the first of the callbacks, so that it saves the weights before another callback,
    such as Keras' SwapEMAWeights, replaces them.
    """

    def __init__(
        self,
        steps: Steps,
        options: TrainOptions,
        checkpoints: Checkpoints | None,
        start: InputStart,
        flag: InterruptFlag,
        workers: Workers | None,
        rule: EarlyStop,
        batch_rows: int | None,
    ) -> None:
        super().__init__()
        self.set_model(steps.model)
        self._steps, self._options, self._checkpoints = steps, options, checkpoints
        self._start, self._flag, self._workers = start, flag, workers
        self._rule, self._batch_rows = rule, batch_rows
        self._has_signal = False  # whether any worker had a signal; the same on all workers
        self._test_steps = 1
        self._begin = self._end = self._passed = 0
        self._timed_steps, self._timed_seconds = 0, 0.0  # this epoch, without the run's first call
        self._saved_at: tuple[int, int] | None = None
        self._saved_seconds = time.monotonic()
        self._logs: Logs = {}
        self._restored_metrics: list[np.ndarray] = []
        self._best_values: list[np.ndarray] = []  # used without checkpoints
        self._meter = Meter()
        self._call_steps = 1
        self._batches: Any = None
        self.step = 0
        self.epochs: list[EpochRecord] = []
        self.resumed_from: int | None = None
        self.first_step_seconds: float | None = None

    @property
    def best(self) -> EpochRecord | None:
        return best_epoch(self.epochs, self._rule)

    @property
    def stop_reason(self) -> str | None:
        """Returns the reason why the training is over; None if it is not."""
        early = self._options.early_stop
        if early and self.epochs and should_stop(self.epochs, early):
            return f"{early.metric} no better for {counted(early.patience_epochs, 'epoch')}"
        total = self._options.total_steps
        return f"all {total} steps done" if self._epochs_end >= total else None

    def resume(self, saved: Saved) -> None:
        assert self._checkpoints is not None
        if saved.start.step > self._options.total_steps:
            raise UsageError(
                f"{saved.path}: the checkpoint has {saved.start.step} steps, more than the "
                f"{self._options.total_steps} of this training: ask for more, or remove it"
            )
        self._checkpoints.restore(saved)
        self.step = self.resumed_from = saved.start.step
        self.epochs = list(saved.epochs)
        self._saved_at = (self.step, len(self.epochs))
        if self.step > self._epochs_end:
            self._restored_metrics = [value.numpy() for value in self.model.metrics_variables]

    def fit(self, data: Any, eval_data: Any, callbacks: Sequence[keras.callbacks.Callback]) -> None:
        """Runs Keras' `fit` until all steps are done or a callback stops it."""
        model, done = self.model, self.epochs[-1].epoch if self.epochs else 0
        left = self._options.total_steps - self._end_of_epoch()
        model.train_function, model.test_function = self._run_train, self._run_test
        # The next line disables Keras' building of the model, which must have been built before.
        # Keras would read a batch to build the model, which fails with several workers.
        model._maybe_symbolic_build = lambda **_: None
        try:
            with warnings.catch_warnings():
                # Keras warns when it reaches the end of evaluation data of unknown length.
                warnings.filterwarnings("ignore", "Your input ran out of data")
                model.fit(
                    data,
                    initial_epoch=done,
                    epochs=done + 1 + max(0, -(-left // self._options.epoch_steps)),
                    steps_per_epoch=self._options.epoch_steps,
                    validation_data=eval_data,
                    callbacks=[self, *callbacks],
                    verbose=0,
                )
        finally:
            model.train_function = model.test_function = None
            del model._maybe_symbolic_build

    def speed(self) -> Speed | None:
        """Measures the speed of steps on the run's next batch, if there is one."""
        batches, self._batches = self._batches, None  # stops the prefetching
        if batches is None:
            return None
        try:
            batch = self._steps.resident(next(batches))
        except (StopIteration, tf.errors.OpError) as error:
            logger.warning("steps without an input cannot be timed: %s", short_error(error))
            return None
        return self._meter.speed(self.model, partial(self._steps.repeat, batch), self._call_steps)

    def _run_train(self, batches: Any) -> Logs:
        """Runs the steps that `fit` runs at once; returns the metrics since their last reset."""
        self._batches = batches
        self._passed += self.model.steps_per_execution
        end = min(self._begin + self._passed, self._end)
        every = self._options.checkpoint_every_steps
        while self.step < end:
            self.stop_if_interrupted()
            save = (self.step // every + 1) * every if every else end
            self._call(batches, min(self._call_steps, min(end, save) - self.step))
            if every and self.step % every == 0 and self.step < self._options.total_steps:
                self.save()
        return self._logs or self.model.get_metrics_result()

    def _run_test(self, batches: Any) -> Logs:
        done, wanted = 0, self.model.steps_per_execution
        while done < wanted:
            count = min(self._test_steps, wanted - done)
            begin = time.perf_counter()
            ran = self._steps.evaluate(batches, count)
            seconds, _ = self._agree(time.perf_counter() - begin)
            self._test_steps = _next_count(count, seconds)
            self.stop_if_interrupted()
            done += ran
            if ran < count:
                break
        if not done:
            raise StopIteration
        return self.model.get_metrics_result()

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self._begin, self._passed, self._end = self._epochs_end, 0, self._end_of_epoch()
        self._timed_steps, self._timed_seconds, self._logs = 0, 0.0, {}
        assign(self.model.metrics_variables, self._restored_metrics)
        self._restored_metrics = []

    def on_test_begin(self, logs: Any = None) -> None:
        self.stop_if_interrupted()
        self.save()  # an error in the evaluation must not lose the epoch's steps
        self._test_steps = 1

    def on_test_end(self, logs: Any = None) -> None:
        if not logs:
            raise DataError("eval_data is empty")

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        metrics = _flat(logs or {})
        if not math.isfinite(metrics.get("val_loss", 0.0)):
            self._fail(f"the evaluation loss is {metrics['val_loss']} after step {self.step}")
        per_step = self._seconds_per_step
        record = EpochRecord(
            epoch=epoch + 1,
            step=self.step,
            steps=self.step - self._begin,
            metrics=metrics,
            learning_rate=float(tf.convert_to_tensor(self.model.optimizer.learning_rate)),
            seconds=self._timed_seconds,
            seconds_per_step=per_step,
            examples_per_second=per_step and self._batch_rows and self._batch_rows / per_step,
        )
        self.epochs.append(record)
        self.save()
        if self._options.early_stop and self.best is record and not self._checkpoints:
            self._best_values = [variable.numpy() for variable in self._variables]
        tell(str(record), is_milestone=True)
        if self.stop_reason:
            self.model.stop_training = True

    def stop_if_interrupted(self) -> None:
        is_told = self._has_signal if self._workers else self._flag.name
        if not is_told:
            return
        name = self._flag.name or "another worker was told to stop"
        place = f"{name} at step {self.step} of {self._options.total_steps}"
        if self._checkpoints is None:
            raise TrainingInterruptedError(f"{place}: nothing is saved, train() has no resume_dir")
        self.save()
        raise TrainingInterruptedError(
            f"{place}: saved in {self._checkpoints.directory}; run again to continue from there"
        )

    def save(self) -> None:
        """Saves the state, unless the last checkpoint already has it."""
        at = (self.step, len(self.epochs))
        if self._checkpoints is None or at == self._saved_at:
            return
        best = self.best if self._options.early_stop else None
        start = replace(self._start, step=self.step)
        self._checkpoints.save(start, self.epochs, best_step=best.step if best else None)
        self._saved_at, self._saved_seconds = at, time.monotonic()

    def restore_best(self) -> int:
        """Restores the best epoch's state if the options say so; returns the state's epoch."""
        best, last = self.best, self.epochs[-1]
        if self._options.early_stop is None or best is None or best is last:
            return last.epoch
        if self._checkpoints:
            self._checkpoints.restore(self._checkpoints.at(best.step))
        else:
            assign(self._variables, self._best_values)
        return best.epoch

    @property
    def _variables(self) -> list[keras.Variable]:
        return [*self.model.variables, *self.model.optimizer.variables]

    @property
    def _epochs_end(self) -> int:
        """Returns the last step of the last recorded epoch.

        It is not computed from `epoch_steps`, because an earlier run may have used another value.
        """
        return self.epochs[-1].step if self.epochs else 0

    def _end_of_epoch(self) -> int:
        # If epochs are shorter than before a resumption, `step` may already be past the end of this
        # epoch.
        options = self._options
        return max(self.step, min(self._epochs_end + options.epoch_steps, options.total_steps))

    @property
    def _seconds_per_step(self) -> float | None:
        return self._timed_seconds / self._timed_steps if self._timed_steps else None

    def _call(self, batches: Any, count: int) -> None:
        begin = time.perf_counter()
        try:
            done, self._logs = self._steps.train(batches, count)
        except tf.errors.OutOfRangeError as error:
            raise UsageError(
                f"train_data ended after step {self.step}: it must be endless, as Input.train's is"
            ) from error
        seconds = time.perf_counter() - begin
        self.step += done
        loss = float(self._logs["loss"])
        if not math.isfinite(loss):
            self._fail(f"the loss became {loss} at step {self.step}")
        mean, is_due = self._agree(seconds)
        if self.first_step_seconds is None:
            self.first_step_seconds = seconds  # includes compiling, so it is left out of the timing
            self._meter.start()
        else:
            self._timed_steps += done
            self._timed_seconds += seconds
            self._meter.add(done, seconds)
            self._call_steps = _next_count(done, mean)
        if is_due:
            self.save()
        self._tell(loss)

    def _agree(self, seconds: float) -> tuple[float, bool]:
        """Returns the mean duration of a call over all workers, and whether to save.

        All workers must run the same number of steps in the next call, and save and stop at the
        same step.
        """
        every = self._options.checkpoint_every_seconds
        is_due = time.monotonic() - self._saved_seconds >= every
        if self._workers is None:
            return max(seconds, 1e-9), is_due
        values = [int(1e6 * seconds), self._flag.name is not None, is_due]
        micros, signals, due = self._workers.total(values)
        self._has_signal = signals > 0
        return max(micros, 1) / 1e6 / len(self._workers.addresses), due > 0

    def _tell(self, loss: float) -> None:
        total = self._options.total_steps
        text = f"step {self.step:,} of {total:,}, loss {loss:.4g}"
        if per_step := self._seconds_per_step:
            if self._batch_rows:
                text += f", {self._batch_rows / per_step:,.0f} rows/s"
            text += f", {(total - self.step) * per_step:,.0f} s left"
        tell(text)

    def _fail(self, what: str) -> None:
        kept = ""
        if self._checkpoints and (saved := self._checkpoints.newest()):
            kept = f"; the state of step {saved.start.step} is kept in {saved.path}"
        raise DivergedError(
            f"{what}; nothing is exported{kept}. Look for NaN, inf or wrong scales in the features "
            "(penstock inspect, the statistics), lower the learning rate or clip gradients"
        )


def _next_count(steps: int, seconds: float) -> int:
    """Returns the number of steps for the next call, which should take about `CALL_SECONDS`.

    `seconds` is the duration of the last call, which ran `steps` steps. The number at most doubles.
    """
    return max(1, min(int(steps * CALL_SECONDS / seconds), 2 * steps))


def _flat(logs: dict[str, Any]) -> dict[str, float]:
    """Returns the logs as numbers; a log with several values becomes `name_0`, ..."""
    values: dict[str, float] = {}
    for name, result in logs.items():
        parts = np.ravel(keras.ops.convert_to_numpy(result)).tolist()
        names = [name] if len(parts) == 1 else [f"{name}_{i}" for i in range(len(parts))]
        values.update(zip(names, map(float, parts), strict=True))
    return values


def assign(variables: Sequence[keras.Variable], values: Sequence[np.ndarray]) -> None:
    for variable, value in zip(variables, values, strict=False):
        variable.assign(value)
