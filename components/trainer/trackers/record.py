"""The tracker's run that belongs to a training, as `tracker.json`.

It stands in the ModelRun artifact, written at the end, and beside the checkpoints, written at the
beginning, where the next run finds it.
"""

import json
import os
import posixpath
from dataclasses import asdict, dataclass

from penstock.components.errors import DataError
from penstock.components.trainer.record_file import read_record, write_record

TRACKER_NAME = "tracker.json"


@dataclass(frozen=True)
class TrackerRecord:
    """A run in a tracker.

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


def write_tracker_record(directory: str | os.PathLike[str], record: TrackerRecord) -> None:
    """Write `tracker.json` into `directory` in one step."""
    path = posixpath.join(os.fspath(directory), TRACKER_NAME)
    write_record(path, json.dumps(asdict(record), indent=1) + "\n")


def read_tracker_record(directory: str | os.PathLike[str]) -> TrackerRecord | None:
    """Read the `tracker.json` of a folder; None where there is none.

    Raises:
        DataError: It is damaged.
    """
    path = posixpath.join(os.fspath(directory), TRACKER_NAME)
    try:
        text = read_record(path)
    except DataError:
        return None
    try:
        return TrackerRecord(**json.loads(text))
    except (TypeError, ValueError) as error:
        raise DataError(f"{path}: not a tracker's record ({error})") from error
