"""Applies training options to a model's optimizer; reads its moving averages of weights."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import keras

from penstock.components.errors import UsageError
from penstock.components.trainer.options import TrainOptions


def set_up_optimizer(model: keras.Model, options: TrainOptions, *, replicas: int) -> None:
    """Sets schedule, accumulation and averages of an optimizer that is not built yet."""
    optimizer = _inner(model)
    every = options.gradient_accumulation_steps
    if every > 1:
        if replicas > 1:
            raise UsageError(
                f"gradient_accumulation_steps is for one device, there are {replicas} replicas, "
                "whose batches already add up"
            )
        optimizer.gradient_accumulation_steps = every
    if options.ema_momentum is not None:
        optimizer.use_ema, optimizer.ema_momentum = True, options.ema_momentum
    if options.learning_rate_schedule == "none" and not options.warmup_steps:
        return
    if isinstance(optimizer._learning_rate, keras.optimizers.schedules.LearningRateSchedule):
        raise UsageError(
            "the optimizer of build_model has a learning-rate schedule: leave it, or "
            "learning_rate_schedule and warmup_steps, out"
        )
    rate = float(keras.ops.convert_to_numpy(optimizer.learning_rate))
    warmup = options.warmup_steps
    optimizer.learning_rate = keras.optimizers.schedules.CosineDecay(
        0.0 if warmup else rate,
        max(1, options.total_steps // every - warmup),
        alpha=0.0 if options.learning_rate_schedule == "cosine" else 1.0,
        warmup_target=rate if warmup else None,
        warmup_steps=warmup,
    )


def averages(model: keras.Model) -> dict[int, Any]:
    """Returns the variable of each weight's moving average, by the weight's id; may be empty."""
    optimizer = _inner(model)
    if not optimizer.use_ema:
        return {}
    kept = optimizer._model_variables_moving_average
    pairs = zip(optimizer._trainable_variables, kept, strict=True)
    return {id(variable): average for variable, average in pairs}


def take_averages(model: keras.Model) -> None:
    found = averages(model)
    for variable in model.trainable_variables:
        if id(variable) in found:
            variable.assign(found[id(variable)].numpy())


@contextmanager
def averaged(model: keras.Model) -> Iterator[None]:
    """Replaces the weights by their averages within the `with` block."""
    own = [variable.numpy() for variable in model.trainable_variables] if averages(model) else []
    take_averages(model)
    try:
        yield
    finally:
        for variable, value in zip(model.trainable_variables, own, strict=False):
            variable.assign(value)


def _inner(model: keras.Model) -> Any:
    """Returns the optimizer inside the one that scales the loss of float16, if there is one."""
    return getattr(model.optimizer, "inner_optimizer", model.optimizer)
