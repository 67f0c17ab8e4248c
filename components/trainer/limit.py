"""After the last epoch: the same steps without an input, and under the profiler.

The weights come out as they went in. What is measured takes about a second, of a short training
a quarter of its steps.
"""

import logging
import math
from collections.abc import Iterator
from contextlib import contextmanager

import keras
import tensorflow as tf

from penstock.components.trainer.options import TrainOptions
from penstock.components.trainer.steps import Steps
from penstock.components.trainer.utilisation.record import StepLimit
from penstock.components.trainer.utilisation.trace import idle_share_of
from penstock.components.trainer.workers import Workers

logger = logging.getLogger(__name__)

_CALLS = 10
# The way into TensorFlow and back costs a hundredth of such a call.
_CALL_SECONDS = 0.1
# Of the steps that were trained, a call repeats at most one in so many.
_PART = 40


def measure_limits(
    model: keras.Model,
    steps: Steps,
    *,
    options: TrainOptions,
    trained_steps: int,
    seconds_per_step: float | None,
    log_dir: str,
    workers: Workers | None = None,
) -> tuple[StepLimit | None, float | None]:
    """Time steps on one batch that lies on the device; profile some where `options` ask for it.

    Args:
        model: Its weights come out as they went in.
        steps: Of the model; the training data goes on to where it is not read again.
        options: Those of the training.
        trained_steps: Steps of this run.
        seconds_per_step: What they took; None, of a run without a steady step, measures nothing.
        log_dir: Where TensorBoard looks for the profile.
        workers: Where there are several, which do the same steps.

    Returns:
        The limit, and the GPUs' idle share; see `Utilisation`.
    """
    if seconds_per_step is None:
        return None, None
    fitting = options.steps_per_execution or math.ceil(_CALL_SECONDS / seconds_per_step)
    count = max(1, min(fitting, trained_steps // _PART))
    if workers is not None:
        [count] = workers.from_chief([count])
    try:
        with _weights_kept(model):
            idle = _idle_share(steps, options.profile_steps, log_dir)
            return _limit(steps, count), idle
    except tf.errors.OpError as error:
        logger.warning("what the input costs was not measured: %s", error.message.splitlines()[0])
        return None, None


def _limit(steps: Steps, count: int) -> StepLimit:
    batch = steps.resident_batch()
    steps.repeat(batch, 1)  # traces
    calls = [steps.repeat(batch, count).step_seconds.mean() for _ in range(_CALLS)]
    return StepLimit(tuple(map(float, calls)), on_gpu=steps.on_gpu)


def _idle_share(steps: Steps, count: int, log_dir: str) -> float | None:
    if not count:
        return None
    steps.train(count)  # uses up the batches that the input has ready by now
    return idle_share_of(lambda: steps.train(count), log_dir)


@contextmanager
def _weights_kept(model: keras.Model) -> Iterator[None]:
    """Put back what steps change: weights, metrics, random state, the optimizer's variables."""
    variables = [*model.variables, *model.optimizer.variables]
    values = [variable.numpy() for variable in variables]
    try:
        yield
    finally:
        for variable, value in zip(variables, values, strict=True):
            variable.assign(value)
