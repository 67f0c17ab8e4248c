"""The work of `penstock ingest`: plan, show progress, report."""

import os
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from glob import glob
from shlex import quote

from penstock.components.engine.options import EngineOptions
from penstock.components.engine.pipeline import engine_pipeline
from penstock.components.errors import counted
from penstock.components.example_gen.ingest import ingest, plan_job
from penstock.components.example_gen.options import IngestOptions
from penstock.components.example_gen.split_options import SplitOptions
from penstock.components.example_gen.stage import spread_by
from penstock.components.example_gen.write_shards import Job
from penstock.components.packing.options import PackOptions
from penstock.components.packing.spool import pack_source
from penstock.components.sources.kinds import find_kind
from penstock.components.sources.open import open_source
from penstock.components.sources.options import KindOptions
from penstock.components.sources.spread import processes
from penstock.components.tfrecord.manifest import Manifest
from penstock.pipelines.cli.work.inspect import show_columns, show_splits
from penstock.pipelines.terminal.interrupts import whole_or_nothing
from penstock.pipelines.terminal.tables import console
from penstock.pipelines.terminal.work_progress import watched_rows


def run_ingest(
    parts: Sequence[tuple[Sequence[str], SplitOptions]],
    output: str,
    source_options: KindOptions,
    options: IngestOptions,
    *,
    engine: EngineOptions,
    packing: PackOptions | None,
    overwrite: bool,
    as_json: bool,
) -> None:
    """Ingest all parts, inputs with the splits that their rows go to, into `output`.

    With `packing` the output is packed records instead of Examples.

    Raises:
        DataError: The data is bad.
        UsageError: An option or `output` cannot be used.
    """
    told = console(stderr=True)
    started = time.perf_counter()
    make_pipeline = partial(engine_pipeline, engine)
    with whole_or_nothing():
        jobs, is_here = [], engine.runner == "local"
        spread = processes(engine.workers) if is_here else spread_by(make_pipeline, output)
        for inputs, splits in parts:
            source = open_source(_as_workers_see(inputs, engine), source_options, spread)
            jobs.append(plan_job(source, splits, options))
            noun = "file" if find_kind(source.kind).of_files else "input"
            inputs_are = counted(len(source.files), f"{source.kind} {noun}")
            plan = "" if packing else f"; shards of each split: {jobs[-1].plan.reason}"
            told.print(f"{counted(source.rows, 'row')} in {inputs_are}{plan}")
            for note in source.notes:
                told.print(note)
        rows = sum(job.source.rows for job in jobs)
        work: Callable[..., Manifest] = ingest
        if packing:
            work = partial(pack_source, packing=packing, watch_packing=watched_rows)
        manifest = work(
            jobs,
            output,
            options,
            make_pipeline,
            overwrite=overwrite,
            watch=lambda rows_done: watched_rows(rows_done, rows),
        )
    if as_json:
        sys.stdout.write(manifest.to_json())
    else:
        _report(manifest, jobs, output, time.perf_counter() - started)


def _as_workers_see(inputs: Sequence[str], engine: EngineOptions) -> Sequence[str]:
    """Paths in full for an engine, whose workers are in other folders; other inputs as they are."""
    if engine.runner == "local":
        return inputs
    return [os.path.abspath(one) if glob(one, recursive=True) else one for one in inputs]


def _report(manifest: Manifest, jobs: Sequence[Job], output: str, seconds: float) -> None:
    out = console()
    show_splits(out, f"{output}: {counted(len(manifest.shards), 'shard')}", manifest)
    account = manifest.account
    out.print(
        f"{account.read:,} rows read = {sum(account.written.values()):,} written "
        f"+ {account.quarantined:,} quarantined + {account.blank:,} blank, in {seconds:.1f} s"
    )
    for name, rows in account.written.items():
        if not rows:
            out.print(f"split {name!r} has no rows")
    if manifest.packed:
        show_columns(out, manifest, output)
    if manifest.parquet:
        out.print(f"the same as Parquet: {output}/{manifest.parquet}")
    if manifest.quarantine:
        out.print(f"quarantined rows: {output}/{manifest.quarantine}")
    ignored = [path for job in jobs for path in job.source.ignored]
    if ignored:
        out.print(f"ignored: {', '.join(ignored)}")
    out.print(f"look closer: penstock inspect {quote(output)}")
