"""The row ledger of a run: the number of rows that each node read and wrote, by split.

`row_check` stores the row counts of a node as a custom property of its outputs; this module reads
them from the metadata store.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from penstock.components.plain import from_plain
from penstock.pipelines.runs.run_record import RunRecord, plain_properties

ROWS_PROPERTY = "penstock_rows"


@dataclass(frozen=True)
class NodeRows:
    """Rows that a node read and wrote, by split.

    Splits that are evaluated together share one entry, such as `train+eval`. `reasons` say why the
    numbers of read and written rows of a split differ, or why written rows are not counted.
    """

    read: Mapping[str, int] = field(default_factory=dict)
    written: Mapping[str, int] = field(default_factory=dict)
    reasons: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class LedgerEntry:
    """Number of rows of a split in a node's output, and the split's entry in `NodeRows.reasons`."""

    split: str
    node: str
    rows: int | None  # None if the rows are not counted
    reason: str = ""


def rows_of(properties: Mapping[str, Any]) -> NodeRows | None:
    """Returns the row counts in the properties of an artifact, or None."""
    stated = properties.get(ROWS_PROPERTY)
    return from_plain(NodeRows, json.loads(stated)) if stated else None


def ledger_of(run: RunRecord) -> tuple[LedgerEntry, ...]:
    """Returns the ledger of a run, grouped by split, in the order in which its nodes began."""
    entries = dict.fromkeys(_entries(run))
    splits = {entry.split: None for entry in entries}
    return tuple(entry for split in splits for entry in entries if entry.split == split)


def _entries(run: RunRecord) -> Iterator[LedgerEntry]:
    for node in run.nodes:
        for artifact in node.outputs:
            rows = rows_of(plain_properties(artifact)) or NodeRows()
            for split in rows.written or rows.reasons:
                reason = rows.reasons.get(split, "")
                yield LedgerEntry(split, node.node, rows.written.get(split), reason)


def ledger_lines(ledger: Sequence[LedgerEntry]) -> list[str]:
    """Returns a line for each split: `train 1,963: ExampleGen = StatisticsGen = Transform`."""
    lines: dict[str, list[str]] = {}
    last: dict[str, int] = {}
    for entry in ledger:
        parts = lines.setdefault(entry.split, [])
        why = f" ({entry.reason})" if entry.reason else ""
        rows = "" if entry.rows is None else f" {entry.rows:,}"
        if not parts:
            parts.append(f"{entry.split}{rows}: {entry.node}{why}")
        elif rows and entry.rows == last.get(entry.split):
            parts.append(f" = {entry.node}{why}")
        else:
            parts.append(f", {entry.node}{rows}{why}")
        if entry.rows is not None:
            last[entry.split] = entry.rows
    return ["".join(parts) for parts in lines.values()]
