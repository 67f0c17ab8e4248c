"""Where tasks leave what they did for the process that started them.

Workers may be threads, processes or containers of any Beam runner; what they share with
the process that started them is the output folder. So results, errors and progress are
small files there, each replaced in one step, and gone before the output is published.
"""

import json
import os
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path

from penstock.components.errors import DataError
from penstock.components.tfrecord.manifest import Shard

# File names need not be UTF-8, and errors name files.
_TEXT = {"encoding": "utf-8", "errors": "surrogateescape"}


@dataclass(frozen=True)
class TaskResult:
    """What a task did.

    Attributes:
        shards: The shard that it wrote of each split.
        read: Rows that it read, blank ones included.
        quarantined: Rows that it set aside.
        blank: Blank lines that it passed over.
    """

    shards: dict[str, Shard]
    read: int
    quarantined: int
    blank: int

    @classmethod
    def from_json(cls, text: str) -> "TaskResult":
        """Parse what `json.dumps(asdict(result))` wrote."""
        raw = json.loads(text)
        return cls(**{**raw, "shards": {k: Shard(**v) for k, v in raw["shards"].items()}})


class TaskBoard:
    """The board of one attempt at an output."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / ".tasks"
        self._folder.mkdir(exist_ok=True)

    def store_result(self, task: int, result: TaskResult) -> None:
        """Say that a task is done."""
        self._replace(f"{task:05d}.json", json.dumps(asdict(result)))

    def store_error(self, task: int, error: str) -> None:
        """Say what stopped a task, in one line."""
        self._replace(f"{task:05d}.error", error)

    def store_rows(self, task: int, rows: int) -> None:
        """Say how many rows a task has read until now."""
        self._replace(f"{task:05d}.rows", str(rows))

    def results(self, tasks: int) -> list[TaskResult]:
        """The results of all tasks, in order."""
        return [
            TaskResult.from_json((self._folder / f"{i:05d}.json").read_text()) for i in range(tasks)
        ]

    def first_error(self) -> DataError | None:
        """What stopped the first of the tasks that were stopped, if any was."""
        errors = sorted(self._folder.glob("*.error"))
        return DataError(errors[0].read_text(**_TEXT)) if errors else None

    def rows_done(self) -> int:
        """Rows that all tasks have read until now."""
        return sum(int(file.read_text()) for file in self._folder.glob("*.rows"))

    def clear(self) -> None:
        """Remove the board from the output."""
        shutil.rmtree(self._folder)

    def _replace(self, name: str, text: str) -> None:
        temporary = self._folder / f".{name}.{os.getpid()}"
        temporary.write_text(text, **_TEXT)
        temporary.rename(self._folder / name)
