"""The results of tasks, and their progress while they are at work.

A task's result is an element of the Beam pipeline, whatever its worker is; the last stage writes
all of them where the process that started them finds them. On the way there is a board in the
output folder: how many rows were read, and that a task was stopped, so that others need not begin.
"""

import json
import shutil
import uuid
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

from penstock.components.errors import DataError
from penstock.components.tfrecord.manifest import Shard

# File names need not be UTF-8, and errors name files.
_TEXT = {"encoding": "utf-8", "errors": "surrogateescape"}
_RESULTS = "results.json"
_STOPPED = "stopped"


@dataclass(frozen=True)
class TaskResult:
    """What a task did.

    Attributes:
        number: The task's.
        shards: The shard that it wrote of each split.
        read: Rows that it read, blank ones included.
        quarantined: Rows that it quarantined.
        blank: Blank lines that it passed over.
        error: What of the data stopped it, in one line; None if nothing did.
    """

    number: int
    shards: dict[str, Shard]
    read: int = 0
    quarantined: int = 0
    blank: int = 0
    error: str | None = None


class TaskBoard:
    """The board of one attempt at an output."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / ".tasks"
        self._folder.mkdir(exist_ok=True)

    def stop(self) -> None:
        """Say that a task was stopped."""
        self._replace(_STOPPED, "")

    @property
    def is_stopped(self) -> bool:
        """Whether a task was."""
        return (self._folder / _STOPPED).exists()

    def store_rows(self, task: int, rows: int) -> None:
        """Say how many rows a task has read until now."""
        self._replace(f"{task:05d}.rows", str(rows))

    def rows_done(self) -> int:
        """Rows that all tasks have read until now."""
        return sum(int(file.read_text()) for file in self._folder.glob("*.rows"))

    def store_results(self, results: Iterable[TaskResult]) -> None:
        """Say what all tasks did."""
        # Of a task that an engine ran twice either result will do.
        by_number = {result.number: result for result in results}
        self._replace(_RESULTS, json.dumps([asdict(by_number[i]) for i in sorted(by_number)]))

    def results(self, tasks: int) -> list[TaskResult]:
        """The results of all tasks, in order.

        Raises:
            DataError: The data stopped one; says what the first of them was stopped by.
        """
        raw = json.loads((self._folder / _RESULTS).read_text(**_TEXT))
        results = [
            TaskResult(**{**one, "shards": {k: Shard(**v) for k, v in one["shards"].items()}})
            for one in raw
        ]
        for result in results:
            if result.error is not None:
                raise DataError(result.error)
        assert [result.number for result in results] == list(range(tasks)), "a task is missing"
        return results

    def clear(self) -> None:
        """Remove the board from the output."""
        shutil.rmtree(self._folder)

    def _replace(self, name: str, text: str) -> None:
        temporary = self._folder / f".{name}.{uuid.uuid4().hex}"
        temporary.write_text(text, **_TEXT)
        temporary.rename(self._folder / name)
