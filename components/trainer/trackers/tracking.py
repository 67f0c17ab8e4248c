"""Logs a training to all trackers."""

import json
import os
import posixpath
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import tensorflow as tf

from penstock.components.errors import DataError, UsageError
from penstock.components.trainer.interrupt import TrainingInterruptedError
from penstock.components.trainer.record import EpochRecord, read_record, write_record
from penstock.components.trainer.trackers.background import (
    BackgroundTracker,
    State,
    Tracker,
    redacted,
)
from penstock.components.trainer.trackers.options import TrackOptions

TRACKER_NAME = "tracker.json"
_VALIDATION = "epoch_val_"


@dataclass(frozen=True)
class TrackerRecord:
    """Record of the tracker's run: `tracker.json`, in the ModelRun and beside the checkpoints."""

    kind: str
    run: str  # the tracker's id of the run
    url: str | None  # None if the tracker has no web page
    failure: str | None = None  # why some data did not reach the tracker


class TensorBoard:
    """Writer of TensorBoard's event files, `train/` and `validation/` in `log_dir`.

    Evaluation metrics, `epoch_val_<metric>`, go to `validation/` as `epoch_<metric>`, so that both
    curves are in one plot, as in Keras. Files are not copied: they are already beside the logs.
    """

    continued = False

    def __init__(self, log_dir: str) -> None:
        self.run = log_dir
        self.url: str | None = None
        self._train = tf.summary.create_file_writer(posixpath.join(log_dir, "train"))
        self._validation = tf.summary.create_file_writer(posixpath.join(log_dir, "validation"))

    def params(self, values: Mapping[str, str]) -> None:
        rows = [f"| {name} | {value} |" for name, value in values.items()]
        with self._train.as_default(step=0):
            tf.summary.text("params", "\n".join(["| option | value |", "|---|---|", *rows]))

    def metrics(self, values: Mapping[str, float], step: int) -> None:
        """Writes scalars and flushes them, so that a running training can be watched."""
        validation = {
            f"epoch_{name.removeprefix(_VALIDATION)}": value
            for name, value in values.items()
            if name.startswith(_VALIDATION)
        }
        train = {name: v for name, v in values.items() if not name.startswith(_VALIDATION)}
        for writer, scalars in ((self._train, train), (self._validation, validation)):
            with writer.as_default(step=step):
                for name, value in scalars.items():
                    tf.summary.scalar(name, value)
            writer.flush()

    def file(self, name: str, text: str) -> None:
        """Does nothing: the file is already in the folder of the logs."""

    def end(self, state: State) -> None:
        self._train.close()
        self._validation.close()


class Tracking:
    """Context manager of TensorBoard and of the tracker that the options name, if any.

    How the `with` block ends decides the final state of the run in the trackers. The id of the run
    is kept in `resume_dir`, so that the next run can continue it.
    """

    def __init__(self, options: TrackOptions, model_run_dir: str, resume_dir: str | None) -> None:
        self._options = options
        self._model_run_dir = model_run_dir
        self._chosen = _open(options, resume_dir)
        if self._chosen is not None and resume_dir is not None:
            write_tracker_record(resume_dir, self._record(self._chosen))
        self._trackers: list[Tracker] = [TensorBoard(model_run_dir)]
        if self._chosen is not None:
            self._trackers.append(self._chosen)

    def __enter__(self) -> "Tracking":
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        for tracker in self._trackers:
            tracker.end(_state(error))
        if self._chosen is not None:
            write_tracker_record(self._model_run_dir, self._record(self._chosen))

    def begin(self, params: Mapping[str, Any], epochs: Sequence[EpochRecord]) -> None:
        """Logs options and earlier epochs, unless a continued run already has them."""
        flat = {name: redacted(str(value)) for name, value in _flat(params)}
        for tracker in self._trackers:
            if not tracker.continued:
                tracker.params(flat)
                for epoch in epochs:
                    tracker.metrics(_metrics(epoch), epoch.step)

    def epoch(self, epoch: EpochRecord) -> None:
        self.metrics(_metrics(epoch), epoch.step)

    def metrics(self, values: Mapping[str, float], step: int) -> None:
        for tracker in self._trackers:
            tracker.metrics(values, step)

    def file(self, name: str, text: str) -> None:
        for tracker in self._trackers:
            tracker.file(name, redacted(text))

    def _record(self, tracker: BackgroundTracker) -> TrackerRecord:
        return TrackerRecord(self._options.kind, tracker.run, tracker.url, tracker.failure)


def write_tracker_record(directory: str | os.PathLike[str], record: TrackerRecord) -> None:
    path = posixpath.join(os.fspath(directory), TRACKER_NAME)
    write_record(path, json.dumps(asdict(record), indent=1) + "\n")


def read_tracker_record(directory: str | os.PathLike[str]) -> TrackerRecord | None:
    path = posixpath.join(os.fspath(directory), TRACKER_NAME)
    try:
        text = read_record(path)
    except DataError:
        return None
    try:
        return TrackerRecord(**json.loads(text))
    except (TypeError, ValueError) as error:
        raise DataError(f"{path}: not a tracker's record ({error})") from error


def _open(options: TrackOptions, resume_dir: str | None) -> BackgroundTracker | None:
    if options.kind == "none":
        return None
    before = read_tracker_record(resume_dir) if resume_dir is not None else None
    run = before.run if before is not None and before.kind == options.kind else None
    try:
        from penstock.components.trainer.trackers.mlflow import MlflowTracker
    except ImportError as error:
        raise UsageError(
            f"track.kind=mlflow needs a package that is not installed ({error.name}): "
            "pip install 'penstock-tfx[mlflow]'"
        ) from error
    if options.uri is None and not os.environ.get("MLFLOW_TRACKING_URI"):
        raise UsageError("track.kind=mlflow needs track.uri, or MLFLOW_TRACKING_URI")
    return BackgroundTracker(
        partial(MlflowTracker, options.uri, options.experiment, run),
        name=options.kind,
        patience_seconds=options.patience_seconds,
    )


def _state(error: BaseException | None) -> State:
    if error is None:
        return "finished"
    return "interrupted" if isinstance(error, TrainingInterruptedError) else "failed"


def _metrics(epoch: EpochRecord) -> dict[str, float]:
    values = dict(epoch.metrics)
    values["learning_rate"] = epoch.learning_rate
    for name in ("seconds_per_step", "input_wait_share", "examples_per_second"):
        if (value := getattr(epoch, name)) is not None:
            values[name] = value
    return {f"epoch_{name}": value for name, value in values.items()}


def _flat(params: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Flattens `{"train": {"epochs": 3}}` to `("train.epochs", 3)`."""
    for name, value in params.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value
