"""The record of a training, `training.json` in the ModelRun artifact, and its best epoch."""

import json
import os
import posixpath
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from penstock.components.errors import DataError
from penstock.components.files.spool import local_path
from penstock.components.plain import from_record
from penstock.components.trainer.options import EarlyStop
from penstock.components.trainer.utilisation.verdict import Speed, verdict

RECORD_NAME = "training.json"
RECORD_VERSION = 3


@dataclass(frozen=True)
class EpochRecord:
    epoch: int
    step: int  # total steps at the end of the epoch
    steps: int  # steps of this epoch, also those before a resumption; `metrics` covers all of them
    metrics: Mapping[str, float]  # names of evaluation metrics begin with `val_`
    learning_rate: float  # at the end of the epoch
    # Wall time of the steps since the start of the epoch, or since a resumption within it. It
    # includes the wait for input, but neither evaluation nor the first step of the run, which
    # includes compilation.
    seconds: float
    seconds_per_step: float | None  # mean over the steps in `seconds`
    examples_per_second: float | None

    def __str__(self) -> str:
        metrics = "  ".join(f"{name} {value:.4f}" for name, value in self.metrics.items())
        line = f"epoch {self.epoch}  step {self.step}  {metrics}"
        if self.seconds_per_step is None:
            return line
        return f"{line}  {1000 * self.seconds_per_step:.2f} ms/step"


@dataclass(frozen=True)
class TrainingRecord:
    """Record of a training; its epochs and steps include those before a resumption."""

    epochs: Sequence[EpochRecord]
    steps: int
    stopped: str
    best_epoch: int | None
    best_metric: str  # metric of the early stop; without one, `val_loss` or `loss`
    exported_epoch: int  # with an early stop the best epoch, otherwise the last
    resumed_from: int | None  # step of the checkpoint from which this run resumed
    replicas: int  # number of devices that share a batch
    seconds: float  # duration of this run, including compilation, evaluation and checkpoints
    first_step_seconds: float | None  # None if no step was left to run
    input_rows: int | None = None  # number of rows in the training files; None if unknown
    batch_rows: int | None = None  # None if batches differ in size
    speed: Speed | None = None  # None if it was not measured, as after too few steps

    @property
    def verdict(self) -> str:
        """Returns a sentence that says whether the input limits the speed of this run."""
        return verdict(self.speed, self.batch_rows)

    @property
    def examples_per_second(self) -> float | None:
        """Mean over the epochs, weighted by their duration."""
        known = [e for e in self.epochs if e.examples_per_second is not None]
        seconds = sum(e.seconds for e in known)
        rows = sum((e.examples_per_second or 0) * e.seconds for e in known)
        return rows / seconds if seconds else None


def write_training_record(directory: str | os.PathLike[str], record: TrainingRecord) -> None:
    """Writes the record of a ModelRun atomically, and creates its folder if necessary."""
    import tensorflow as tf

    path = posixpath.join(os.fspath(directory), RECORD_NAME)
    tf.io.gfile.makedirs(posixpath.dirname(path))
    with tf.io.gfile.GFile(f"{path}.tmp", "w") as file:
        file.write(json.dumps({"version": RECORD_VERSION, **asdict(record)}, indent=1) + "\n")
    tf.io.gfile.rename(f"{path}.tmp", path, overwrite=True)


def read_training_record(directory: str | os.PathLike[str]) -> TrainingRecord:
    path = posixpath.join(os.fspath(directory), RECORD_NAME)
    try:
        text = Path(local_path(path)).read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise DataError(
            f"{directory}: no {RECORD_NAME}; another loop than Penstock's trained, or it did not "
            "end"
        ) from error
    try:
        raw = json.loads(text)
        if raw.pop("version") != RECORD_VERSION:
            raise DataError(f"{path}: a training record of another version; train again")
        return from_record(TrainingRecord, raw)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise DataError(f"{path}: not a training record ({error!r})") from error


def best_epoch(epochs: Sequence[EpochRecord], rule: EarlyStop) -> EpochRecord | None:
    """Returns the last epoch that improved the metric by more than `min_delta`, or None."""
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
    best = best_epoch(epochs, rule)
    since = epochs[-1].epoch - best.epoch if best else len(epochs)
    return since >= rule.patience_epochs
