"""One training told to every tracker alike."""

import functools
import importlib
import json
import os
import posixpath
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from penstock.components.errors import DataError, UsageError
from penstock.components.trainer.interrupt import TrainingInterruptedError
from penstock.components.trainer.record import EpochRecord, read_record, write_record
from penstock.components.trainer.trackers.background import BackgroundTracker
from penstock.components.trainer.trackers.options import TrackOptions
from penstock.components.trainer.trackers.tensorboard import TensorBoard
from penstock.components.trainer.trackers.tracker import State, Tracker, redacted

TRACKER_NAME = "tracker.json"


@dataclass(frozen=True)
class TrackerRecord:
    """A run in a tracker, as `tracker.json`: in the ModelRun, and beside the checkpoints.

    There it is written at the beginning, where the next run finds it.

    Attributes:
        kind: `mlflow` or `comet`.
        run: The tracker's id of it.
        url: Where a person sees it; None where nowhere.
        failure: Why the tracker has not got all that there was to tell; None where it has.
    """

    kind: str
    run: str
    url: str | None
    failure: str | None = None


class Tracking:
    """TensorBoard, and the tracker that the options name, between `with` and its end.

    How the `with` ends is the state that the trackers are told.

    Args:
        options: The tracker beside TensorBoard.
        model_run_dir: Gets the event files and, where there is a tracker, `tracker.json`.
        resume_dir: Where the next run finds which run of the tracker to go on with; None begins
            one each time.

    Raises:
        UsageError: The tracker is not installed, or lacks a key or an address.
        DataError: It does not open.
    """

    def __init__(self, options: TrackOptions, model_run_dir: str, resume_dir: str | None) -> None:
        self._options = options
        self._model_run_dir = model_run_dir
        self._chosen = _open(options, model_run_dir, resume_dir)
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
        """Log the options and the epochs before a resumption, where they are not there already."""
        flat = {name: redacted(str(value)) for name, value in _flat(params)}
        for tracker in self._trackers:
            if not tracker.continued:
                tracker.params(flat)
                for epoch in epochs:
                    tracker.metrics(_metrics(epoch), epoch.step)

    def epoch(self, epoch: EpochRecord) -> None:
        """Log an epoch."""
        self.metrics(_metrics(epoch), epoch.step)

    def metrics(self, values: Mapping[str, float], step: int) -> None:
        """Log figures as of a training step."""
        for tracker in self._trackers:
            tracker.metrics(values, step)

    def file(self, name: str, text: str) -> None:
        """Log a text file."""
        for tracker in self._trackers:
            tracker.file(name, redacted(text))

    def _record(self, tracker: BackgroundTracker) -> TrackerRecord:
        return TrackerRecord(self._options.kind, tracker.run, tracker.url, tracker.failure)


def write_tracker_record(directory: str | os.PathLike[str], record: TrackerRecord) -> None:
    """Write `tracker.json` into `directory` in one step."""
    path = posixpath.join(os.fspath(directory), TRACKER_NAME)
    write_record(path, json.dumps(asdict(record), indent=1) + "\n")


def read_tracker_record(directory: str | os.PathLike[str]) -> TrackerRecord | None:
    """The `tracker.json` of a folder, None without one; DataError if it is damaged."""
    path = posixpath.join(os.fspath(directory), TRACKER_NAME)
    try:
        text = read_record(path)
    except DataError:
        return None
    try:
        return TrackerRecord(**json.loads(text))
    except (TypeError, ValueError) as error:
        raise DataError(f"{path}: not a tracker's record ({error})") from error


def _open(
    options: TrackOptions, model_run_dir: str, resume_dir: str | None
) -> BackgroundTracker | None:
    if options.kind == "none":
        return None
    before = read_tracker_record(resume_dir) if resume_dir is not None else None
    run = before.run if before is not None and before.kind == options.kind else None
    module = _import(options.kind)
    if options.kind == "mlflow":
        if options.uri is None and not os.environ.get("MLFLOW_TRACKING_URI"):
            raise UsageError("track.kind=mlflow needs track.uri, or MLFLOW_TRACKING_URI")
        open_tracker = functools.partial(module.MlflowTracker, options.uri, options.experiment, run)
    else:
        offline_dir = _offline_dir(model_run_dir) if options.offline else None
        open_tracker = functools.partial(module.CometTracker, options.experiment, run, offline_dir)
    return BackgroundTracker(
        open_tracker, name=options.kind, patience_seconds=options.patience_seconds
    )


def _import(kind: str) -> Any:
    """The module of a tracker, whose package comes with an extra."""
    try:
        return importlib.import_module(f"penstock.components.trainer.trackers.{kind}")
    except ImportError as error:
        raise UsageError(
            f"track.kind={kind} needs a package that is not installed ({error.name}): "
            f"pip install 'penstock[{kind}]'"
        ) from error


def _offline_dir(model_run_dir: str) -> str:
    if "://" in model_run_dir:
        raise UsageError(
            f"track.offline needs a local folder, Comet cannot write to {model_run_dir}"
        )
    return posixpath.join(model_run_dir, "comet")


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
    """`{"train": {"epochs": 3}}` as `("train.epochs", 3)`."""
    for name, value in params.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value
