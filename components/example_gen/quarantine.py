"""The rows that did not fit, kept with their reason beside the manifest as JSON lines."""

import base64
import json
import uuid
from collections.abc import Iterable
from pathlib import Path

from penstock.components.sources.base import RejectedRow

QUARANTINE_DIR = "quarantine"


class QuarantineWriter:
    """Writes rejected rows to one file, which exists only if there are any; a context manager.

    Each try at a task writes a file of its own, and `finish` gives it the name.

    Each line is an object with `file`, `line`, `row`, `column`, `reason` and the row as it
    stood in the file: `raw`, or `raw_base64` where it is not UTF-8.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
        self.rows = 0

    def write(self, rejected: Iterable[RejectedRow]) -> None:
        """Append rows; they are on disk when this returns."""
        lines = [json.dumps(_as_json(row)) + "\n" for row in rejected]
        if not lines:
            return
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._temporary.open("a", encoding="utf-8") as out:
            out.writelines(lines)
        self.rows += len(lines)

    def finish(self) -> None:
        """Complete the file under its name."""
        if self.rows:
            self._temporary.rename(self._path)

    def __enter__(self) -> "QuarantineWriter":
        return self

    def __exit__(self, *error: object) -> None:
        self._temporary.unlink(missing_ok=True)


def _as_json(row: RejectedRow) -> dict[str, object]:
    entry: dict[str, object] = {
        "file": row.file,
        "line": row.line,
        "row": row.row,
        "column": row.column,
        "reason": row.reason,
    }
    try:
        entry["raw"] = row.raw.decode()
    except UnicodeDecodeError:
        entry["raw_base64"] = base64.b64encode(row.raw).decode()
    return entry


def first_quarantined(folder: Path) -> str:
    """Place and reason of the first row in quarantine under an output folder."""
    with min((folder / QUARANTINE_DIR).iterdir()).open(encoding="utf-8") as lines:
        entry = json.loads(lines.readline())
    row = RejectedRow(**{k: entry[k] for k in ("file", "row", "line", "column", "reason")}, raw=b"")
    return str(row)
