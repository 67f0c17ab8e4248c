"""The loop itself: epochs of steps, each followed by evaluation, records and a checkpoint."""

import logging
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import keras
import numpy as np
import tensorflow as tf

from penstock.components.activity import tell
from penstock.components.errors import DataError, UsageError, counted
from penstock.components.trainer.checkpoints import Checkpoints, Saved
from penstock.components.trainer.input.start import InputStart
from penstock.components.trainer.interrupt import InterruptFlag, TrainingInterruptedError
from penstock.components.trainer.limit import LimitSampler
from penstock.components.trainer.optimizing import averaged, take_averages
from penstock.components.trainer.options import EarlyStop, TrainOptions
from penstock.components.trainer.record import EpochRecord, best_epoch, should_stop
from penstock.components.trainer.steps import Steps
from penstock.components.trainer.utilisation.meter import Meter
from penstock.components.trainer.utilisation.record import EpochTimes
from penstock.components.trainer.utilisation.step_clock import StepClock, next_call_steps
from penstock.components.trainer.workers import Workers

logger = logging.getLogger(__name__)

# Target duration of a call into TensorFlow in seconds. A call itself costs a millisecond; signals
# and losses that are not finite are noticed only at its end.
_CALL_SECONDS = 0.2

OnEpoch = Callable[[EpochRecord], None]
OnLive = Callable[[Mapping[str, float], int], None]


class EpochLoop:
    """A running training; its `steps` and `epochs` include those before a resumption."""

    def __init__(
        self,
        model: keras.Model,
        steps: Steps,
        options: TrainOptions,
        checkpoints: Checkpoints | None,
        start: InputStart,
        flag: InterruptFlag,
        workers: Workers | None,
        meter: Meter,
        sampler: LimitSampler,
        *,
        batch_rows: int | None,
    ) -> None:
        self._model = model
        self._steps = steps
        self._options = options
        self._checkpoints = checkpoints
        self._start = start
        self._flag = flag
        self._workers = workers
        self._one_is_told = False
        self._meter = meter
        self._sampler = sampler
        self._batch_rows = batch_rows
        self._call_steps = 1
        self._best_values: list[np.ndarray] | None = None
        self._trained_metrics: list[np.ndarray] = []
        self.epochs: list[EpochRecord] = []
        self.step = 0
        self.resumed_from: int | None = None
        self.first_step_seconds: float | None = None
        self.rule = options.early_stop or EarlyStop(metric="val_loss" if steps.has_eval else "loss")

    @property
    def best(self) -> EpochRecord | None:
        return best_epoch(self.epochs, self.rule)

    def resume(self, saved: Saved) -> None:
        assert self._checkpoints is not None
        if saved.start.step > self._options.total_steps:
            raise UsageError(
                f"{saved.path}: the checkpoint has {saved.start.step} steps, more than the "
                f"{self._options.total_steps} that this training is to have in all: ask for more "
                "steps, or remove the checkpoints"
            )
        self._checkpoints.restore(saved)
        self.step = self.resumed_from = saved.start.step
        self.epochs = list(saved.epochs)
        logger.info("resumed at step %d of %d", self.step, self._options.total_steps)

    def run(self, on_epoch: OnEpoch, on_live: OnLive) -> str:
        """Trains to the end, an early stop or an interruption; returns the reason.

        `on_live` is called every few seconds, and at the end of each epoch, with live figures and
        the step that they belong to.
        """
        options = self._options
        while self._epochs_end < options.total_steps:
            if options.early_stop and self.epochs and should_stop(self.epochs, options.early_stop):
                rule = options.early_stop
                return f"{rule.metric} no better for {counted(rule.patience_epochs, 'epoch')}"
            record = self._run_epoch(self.epochs[-1].epoch + 1 if self.epochs else 1, on_live)
            self.epochs.append(record)
            if self.best is record and options.early_stop:
                with averaged(self._model):
                    self._best_values = [variable.numpy() for variable in self._model.variables]
            self._save()
            on_epoch(record)
        return f"all {options.total_steps} steps done"

    def restore_best(self) -> int:
        """Restores the weights of the best epoch if options say so; returns the model's epoch."""
        best = self.best
        if self._options.early_stop is None or best is None or best is self.epochs[-1]:
            take_averages(self._model)
            return self.epochs[-1].epoch
        values = self._best_values
        if values is None:
            assert self._checkpoints is not None  # the best epoch was in an earlier run
            values = self._checkpoints.model_values(best.step)
        _assign(self._model.variables, values)
        return best.epoch

    def stop_if_interrupted(self) -> None:
        if not self._told:
            return
        place = f"{self._told} at step {self.step} of {self._options.total_steps}"
        if self._checkpoints is None:
            raise TrainingInterruptedError(f"{place}: nothing is saved, train() has no resume_dir")
        # An interrupted evaluation has changed the metrics of the epoch's training.
        _assign(self._model.metrics_variables, self._trained_metrics)
        self._save()
        raise TrainingInterruptedError(
            f"{place}: saved in {self._checkpoints.directory}; run again to go on from there"
        )

    @property
    def _epochs_end(self) -> int:
        """Returns the last step of the last recorded epoch, whose options may have been others."""
        return self.epochs[-1].step if self.epochs else 0

    @property
    def _told(self) -> str | None:
        """Returns what stopped the training, if a worker received a signal; all workers agree."""
        if self._workers is None:
            return self._flag.name
        return self._flag.name or "another worker was told to stop" if self._one_is_told else None

    def _run_epoch(self, epoch: int, on_live: OnLive) -> EpochRecord:
        began = self._meter.seconds
        begin = self._epochs_end
        # A resumed run may have shorter epochs than the epoch in which it resumes.
        end = max(self.step, min(begin + self._options.epoch_steps, self._options.total_steps))
        clock = StepClock()
        if self.step == begin:  # otherwise the checkpoint has restored the metrics
            self._model.reset_metrics()
        while self.step < end:
            self.stop_if_interrupted()
            loss = self._run_call(min(end, self._next_save()), clock)
            if values := self._meter.live(now=self.step == end):
                on_live(values, self.step)
            self._tell_steps(loss, clock)
        trained = self._meter.seconds
        if self._steps.has_eval:
            self._save()  # an error in the evaluation loses no step of the epoch
        metrics = self._metrics() | self._evaluate()
        self._meter.add_epoch(
            EpochTimes(
                epoch=epoch,
                begin_seconds=began,
                trained_seconds=trained,
                end_seconds=self._meter.seconds,
                steps=clock.steps,
                step_seconds=clock.seconds,
                wait_seconds=clock.wait_seconds,
                cpu_seconds=clock.cpu_seconds,
            )
        )
        rate = self._batch_rows and clock.steps and self._batch_rows * clock.steps / clock.seconds
        return EpochRecord(
            epoch=epoch,
            step=self.step,
            steps=self.step - begin,
            metrics=metrics,
            learning_rate=float(tf.convert_to_tensor(self._model.optimizer.learning_rate)),
            seconds=clock.seconds,
            seconds_per_step=clock.seconds_per_step,
            input_wait_share=clock.input_wait_share,
            examples_per_second=rate or None,
        )

    def _run_call(self, end: int, clock: StepClock) -> float:
        """Runs the steps of one call, up to step `end`; returns the loss of the last step."""
        if self._sampler.wants_batch:
            losses, _ = self._sampler.step_on_kept_batch()
            self._check_finite(losses)
            self.step += 1
        else:
            losses = self._run_steps(min(self._call_steps, end - self.step), clock)
        every = self._options.checkpoint_every_steps
        if every and self.step % every == 0 and self.step < self._options.total_steps:
            self._save()
        return float(losses[-1])

    def _run_steps(self, count: int, clock: StepClock) -> np.ndarray:
        losses, call = self._steps.train(count)
        self._check_finite(losses)
        self.step += count
        seconds = self._settle(call.seconds)
        if self.first_step_seconds is None:
            self.first_step_seconds = call.seconds
            self._sampler.begin(self.step)
            self._call_steps = self._options.steps_per_execution or 1
        else:
            clock.add(call)
            self._meter.add_call(self.step, call)
            self._sampler.add_call(call, self.step)
            self._call_steps = self._options.steps_per_execution or next_call_steps(
                count, seconds, target_seconds=_CALL_SECONDS
            )
        return losses

    def _tell_steps(self, loss: float, clock: StepClock) -> None:
        total = self._options.total_steps
        text = f"step {self.step:,} of {total:,}, loss {loss:.4g}"
        if clock.steps:
            rate = clock.steps / clock.seconds
            left = f"{(total - self.step) / rate:,.0f} s left"
            rows = self._batch_rows
            text += f", {rows * rate:,.0f} rows/s, {left}" if rows else f", {left}"
        tell(text)

    def _settle(self, seconds: float) -> float:
        """Returns the mean duration of a call over all workers, and exchanges their stop flags.

        All workers must run the same number of steps in the next call, and stop at the same step.
        """
        if self._workers is None:
            return seconds
        micros, told = self._workers.total([int(1e6 * seconds), self._flag.name is not None])
        self._one_is_told = told > 0
        return micros / 1e6 / len(self._workers.addresses)

    def _next_save(self) -> int:
        every = self._options.checkpoint_every_steps
        return (self.step // every + 1) * every if every else self._options.total_steps

    def _evaluate(self) -> dict[str, float]:
        if not self._steps.has_eval:
            return {}
        self._trained_metrics = [variable.numpy() for variable in self._model.metrics_variables]
        self._model.reset_metrics()
        batches = self._steps.eval_batches()
        left = self._options.eval_steps or math.inf
        evaluated = 0
        with averaged(self._model):
            while left > 0 and not self._told:
                count = int(min(self._call_steps, left))
                done = self._steps.evaluate(batches, count)
                self._settle(0)
                evaluated += done
                left = left - done if done == count else 0
        self.stop_if_interrupted()
        if not evaluated:
            raise DataError("eval_data is empty")
        metrics = {f"val_{name}": value for name, value in self._metrics().items()}
        if not math.isfinite(metrics["val_loss"]):
            self._fail(f"the evaluation loss is {metrics['val_loss']} after step {self.step}")
        self._trained_metrics = []
        return metrics

    def _metrics(self) -> dict[str, float]:
        """Returns loss and metrics since their reset; several values of one as `name_0`, ..."""
        values: dict[str, float] = {}
        for name, result in self._model.get_metrics_result().items():
            parts = np.ravel(keras.ops.convert_to_numpy(result)).tolist()
            names = [name] if len(parts) == 1 else [f"{name}_{i}" for i in range(len(parts))]
            values.update(zip(names, parts, strict=True))
        return values

    def _check_finite(self, losses: np.ndarray) -> None:
        # The running mean stays NaN or inf after the first such loss, so its first bad value shows
        # the step.
        bad = np.flatnonzero(~np.isfinite(losses))
        if bad.size:
            self._fail(f"the loss became {losses[bad[0]]} at step {self.step + int(bad[0]) + 1}")

    def _fail(self, what: str) -> None:
        kept = ""
        if self._checkpoints and (saved := self._checkpoints.newest()):
            kept = f"; the state of step {saved.start.step} is kept in {saved.path}"
        raise DataError(
            f"{what}; nothing is exported{kept}. Look for NaN, inf or wrong scales in the features "
            "(penstock inspect, the statistics), lower the learning rate or clip gradients"
        )

    def _save(self) -> None:
        if self._checkpoints:
            best = self.best if self._options.early_stop else None
            start = replace(self._start, step=self.step)
            self._checkpoints.save(start, self.epochs, best_step=best.step if best else None)


def _assign(variables: Sequence[keras.Variable], values: Sequence[np.ndarray]) -> None:
    for variable, value in zip(variables, values, strict=False):
        variable.assign(value)
