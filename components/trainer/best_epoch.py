"""The best epoch, and when to stop looking for a better one: numbers only."""

from collections.abc import Sequence

from penstock.components.trainer.options import EarlyStop
from penstock.components.trainer.record import EpochRecord


def best_epoch(epochs: Sequence[EpochRecord], rule: EarlyStop) -> EpochRecord | None:
    """The epoch whose metric no later one beat by more than `min_delta`; None where none has it."""
    sign = 1.0 if rule.mode == "min" else -1.0
    best: EpochRecord | None = None
    for epoch in epochs:
        value = epoch.metrics.get(rule.metric)
        if value is None or value != value:
            continue
        if best is None or sign * value < sign * best.metrics[rule.metric] - rule.min_delta:
            best = epoch
    return best


def should_stop(epochs: Sequence[EpochRecord], rule: EarlyStop) -> bool:
    """Whether `patience_epochs` have passed since the best epoch."""
    best = best_epoch(epochs, rule)
    since = epochs[-1].epoch - best.epoch if best else len(epochs)
    return since >= rule.patience_epochs
