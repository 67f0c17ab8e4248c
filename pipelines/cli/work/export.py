"""The work of `penstock export`: export with progress, and give the account."""

import time
from collections.abc import Sequence
from pathlib import Path

from penstock.components.readers.export import export_shards
from penstock.pipelines.terminal.interrupts import whole_or_nothing
from penstock.pipelines.terminal.tables import console
from penstock.pipelines.terminal.work_progress import work_progress


def run_export(shards: Path, output: Path, to: str, splits: Sequence[str]) -> None:
    """Export; the arguments are those of the command.

    Raises:
        DataError: A shard is damaged.
        UsageError: The format is unknown, its library is not installed, or `output` is taken.
    """
    started = time.perf_counter()
    with whole_or_nothing(), work_progress("{:,} rows".format) as on_rows:
        written = export_shards(shards, output, to=to, splits=splits, on_rows=on_rows)
    by_split = ", ".join(f"{split} {rows:,}" for split, rows in written.items())
    seconds = time.perf_counter() - started
    console().print(
        f"{sum(written.values()):,} rows written ({by_split}) in {seconds:.1f} s: {output}"
    )
