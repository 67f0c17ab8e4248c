"""The tables that `penstock inspect` prints of quarantined rows: JSON Lines in, tables out."""

import glob
import json
import os
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from penstock.components.errors import DataError
from penstock.pipelines.terminal.tables import console, counted, print_table

_NAME = "rejected-*.jsonl"
# A screenful; --all has every row.
_MAX_ROWS = 20
_MAX_REASONS = 10
_MAX_RAW_CHARACTERS = 60
_QUOTED = re.compile(r"b?'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"")
_COLUMNS = ("file", "line", "row", "column", "reason", "row as it stood")


@dataclass(frozen=True)
class RejectedReport:
    """Quarantined rows.

    Attributes:
        path: As it was asked for.
        files: The JSON Lines.
        total: Their rows.
        reasons: How many rows have which fault, as `column: reason`, values in it as `...`; the
            most frequent first.
        rows: The first rows as they stand in the files.
    """

    path: str
    files: tuple[str, ...]
    total: int
    reasons: dict[str, int]
    rows: tuple[dict[str, Any], ...]

    def to_json(self) -> str:
        """The report as one JSON object."""
        return json.dumps(self.__dict__, indent=1)


def find_rejected(path: str) -> list[Path]:
    """The files of rejected rows that a file, a folder or a glob means; none where it holds others.

    A folder is one of rejected rows where nothing else is directly in it.
    """
    if os.path.isdir(path):
        files = sorted(Path(path).iterdir())
    else:
        files = [Path(path)] if os.path.exists(path) else [Path(f) for f in sorted(glob.glob(path))]
    return files if all(fnmatch(file.name, _NAME) and file.is_file() for file in files) else []


def inspect_rejected(path: str, files: Sequence[Path], *, every: bool) -> RejectedReport:
    """Count rows by reason, and keep all or the first; DataError if a line is no rejected row."""
    reasons: Counter[str] = Counter()
    rows: list[dict[str, Any]] = []
    for row in _read(files):
        column = "" if row["column"] is None else f"column {row['column']!r}: "
        reasons[column + _QUOTED.sub("...", row["reason"])] += 1
        if every or len(rows) < _MAX_ROWS:
            rows.append(row)
    names = tuple(map(str, files))
    return RejectedReport(path, names, reasons.total(), dict(reasons.most_common()), tuple(rows))


def show_rejected(report: RejectedReport) -> None:
    """Print a report on stdout."""
    out = console()
    rows, files = counted(report.total, "rejected row"), counted(len(report.files), "file")
    reasons = [(f"{count:,}", reason) for reason, count in report.reasons.items()]
    title = f"{report.path}: {rows} that an ingest quarantined, JSON Lines in {files}"
    print_table(out, title, ("rows", "reason"), reasons[:_MAX_REASONS])
    if len(reasons) > _MAX_REASONS:
        out.print(f"  and {counted(len(reasons) - _MAX_REASONS, 'more reason')}")
    whole = len(report.rows) == report.total
    first = "all of them" if whole else f"the first {len(report.rows):,}; --all shows every one"
    print_table(out, f"\n{first}", _COLUMNS, [_cells(row) for row in report.rows])
    out.print(f"\nwhole rows: {report.files[0]}{' and so on' if len(report.files) > 1 else ''}")


def _read(files: Sequence[Path]) -> Iterator[dict[str, Any]]:
    for file in files:
        with file.open(encoding="utf-8") as lines:
            for number, line in enumerate(lines, start=1):
                try:
                    row = json.loads(line)
                    row["file"], row["row"], row["line"], row["column"], row["reason"]
                except (ValueError, TypeError, KeyError) as error:
                    raise DataError(f"{file}: line {number} is no rejected row") from error
                yield row


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    raw = row.get("raw")
    raw = f"{row.get('raw_base64', '')} (base64)" if raw is None else repr(raw)
    if len(raw) > _MAX_RAW_CHARACTERS:
        raw = raw[: _MAX_RAW_CHARACTERS - 3] + "..."
    line = "" if not row["line"] else f"{row['line']:,}"
    return row["file"], line, f"{row['row']:,}", row["column"] or "", row["reason"], raw
