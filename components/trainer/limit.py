"""Steps without an input after the last epoch, and steps under the profiler.

The weights are restored. The measurement takes about a second, for a short training a quarter of
its steps.
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
# Calling TensorFlow costs a hundredth of such a call.
_CALL_SECONDS = 0.1
# A call repeats at most the trained steps divided by this.
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
    """Times steps on a resident batch, and profiles some if `options` ask for it.

    Args:
        model: Model; its weights are restored.
        steps: Steps of the model; the training data is not read afterwards.
        options: Options of the training.
        trained_steps: Number of steps of this run.
        seconds_per_step: Their mean duration; None (no steady step) measures nothing.
        log_dir: Log folder of TensorBoard, for the profile.
        workers: All workers if there are several; they run the same steps.

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
    steps.train(count)  # uses up the batches that the input has prefetched
    return idle_share_of(lambda: steps.train(count), log_dir)


@contextmanager
def _weights_kept(model: keras.Model) -> Iterator[None]:
    """Restores what steps change: weights, metrics, random state, optimizer variables."""
    variables = [*model.variables, *model.optimizer.variables]
    values = [variable.numpy() for variable in variables]
    try:
        yield
    finally:
        for variable, value in zip(variables, values, strict=True):
            variable.assign(value)
