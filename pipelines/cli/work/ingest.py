"""The work of `penstock ingest`: plan, show progress, report."""

import sys
import time
from collections.abc import Sequence
from functools import partial
from shlex import quote

from penstock.components.engine.options import EngineOptions
from penstock.components.engine.tasks import task_engine
from penstock.components.errors import counted
from penstock.components.example_gen.ingest import PlannedInput, ingest
from penstock.components.example_gen.options import IngestInput, IngestOptions
from penstock.components.packing.options import PackOptions
from penstock.components.packing.spool import ingest_packed
from penstock.components.sources.kinds import find_kind
from penstock.components.tfrecord.manifest import Manifest
from penstock.pipelines.cli.work.inspect import show_columns, show_splits
from penstock.pipelines.terminal.interrupts import whole_or_nothing
from penstock.pipelines.terminal.tables import console
from penstock.pipelines.terminal.work_progress import watched_rows


def run_ingest(
    inputs: Sequence[IngestInput],
    output: str,
    options: IngestOptions,
    *,
    engine: EngineOptions,
    packing: PackOptions | None,
    overwrite: bool,
    as_json: bool,
) -> None:
    """Ingests all inputs into `output`; with `packing` as packed records instead of Examples."""
    errors = console(stderr=True)
    started = time.perf_counter()
    planned: list[PlannedInput] = []

    def show(one: PlannedInput) -> None:
        planned.append(one)
        source = one.source
        noun = "file" if find_kind(source.kind).of_files else "input"
        inputs_are = counted(len(source.files), f"{source.kind} {noun}")
        plan = "" if packing else f"; shards of each split: {one.plan.reason}"
        errors.print(f"{counted(source.rows, 'row')} in {inputs_are}{plan}")
        for note in source.notes:
            errors.print(note)

    work = partial(ingest_packed, packing=packing) if packing else ingest
    with whole_or_nothing(), watched_rows():
        manifest = work(
            inputs,
            output,
            options,
            engine=task_engine(engine),
            overwrite=overwrite,
            on_planned=show,
        )
    if as_json:
        sys.stdout.write(manifest.to_json())
    else:
        _report(manifest, planned, output, time.perf_counter() - started)


def _report(
    manifest: Manifest, planned: Sequence[PlannedInput], output: str, seconds: float
) -> None:
    out = console()
    show_splits(out, f"{output}: {counted(len(manifest.shards), 'shard')}", manifest)
    account = manifest.account
    out.print(
        f"{account.read:,} rows read = {sum(account.written.values()):,} written "
        f"+ {account.quarantined:,} quarantined + {account.blank:,} blank, in {seconds:.1f} s"
    )
    for name, rows in account.written.items():
        shards = manifest.splits[name]
        empty = sum(not shard.rows for shard in shards)
        if not rows:
            out.print(f"split {name!r} has no rows")
        elif empty:
            out.print(
                f"split {name!r}: {empty} of its {len(shards)} shards are empty, as it has few rows"
            )
    if manifest.packed:
        show_columns(out, manifest, output)
    if manifest.parquet:
        out.print(f"the same as Parquet: {output}/{manifest.parquet}")
    if manifest.quarantine:
        out.print(f"quarantined rows: {output}/{manifest.quarantine}")
    ignored = [path for one in planned for path in one.source.ignored]
    if ignored:
        out.print(f"ignored: {', '.join(ignored)}")
    out.print(f"look closer: penstock inspect {quote(output)}")
