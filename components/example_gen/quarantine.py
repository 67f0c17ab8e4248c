"""Quarantine: rejected rows with their reasons, as JSON lines beside the manifest."""

import base64
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TextIO

from penstock.components.sources.base import RejectedRow

QUARANTINE_DIR = "quarantine"


class QuarantineWriter:
    """Writes rejected rows to one file, created only if there are any; a context manager.

    Each line is an object with `file`, `line`, `row`, `column`, `reason`, and the row's bytes in
    the file: as `raw`, or as `raw_base64` if they are not UTF-8.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._out: TextIO | None = None
        self.rows = 0
        self.first: str | None = None  # place and reason of the first row

    def write(self, rejected: Sequence[RejectedRow]) -> None:
        if not rejected:
            return
        if self._out is None:
            self._path.parent.mkdir(exist_ok=True)
            self._out = self._path.open("w", encoding="utf-8")
            self.first = str(rejected[0])
        self._out.writelines(json.dumps(_as_json(row)) + "\n" for row in rejected)
        self.rows += len(rejected)

    def __enter__(self) -> "QuarantineWriter":
        return self

    def __exit__(self, *error: object) -> None:
        if self._out is not None:
            self._out.close()


def _as_json(row: RejectedRow) -> dict[str, object]:
    entry = {name: getattr(row, name) for name in ("file", "line", "row", "column", "reason")}
    try:
        entry["raw"] = row.raw.decode()
    except UnicodeDecodeError:
        entry["raw_base64"] = base64.b64encode(row.raw).decode()
    return entry
