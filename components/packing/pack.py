"""Row Examples in, packed records out: plan, a Beam transform over shards, commit.

    output/
      Split-train/data_tfrecord-00000-of-00008 ...    blocks of rows, see layout.py
      Split-eval/data_tfrecord-00000-of-00008 ...
      vocabulary/company.txt ...                      of columns of ids, one value a line
      manifest.json                                   written last

`tasks.py` has the work, `job.py` the transform, `spool.py` the way right from a source. Rows are
decoded once, as Arrow columns; what they hold together is known before the first block is made.
"""

import hashlib
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from os import PathLike
from pathlib import Path
from tempfile import TemporaryDirectory

from penstock.components.engine.pipeline import local_pipeline
from penstock.components.errors import DataError
from penstock.components.example_gen.stage import MakePipeline, pipeline_of
from penstock.components.example_gen.write_shards import rows_done
from penstock.components.files.output import Output, open_output
from penstock.components.packing.facts import StatedColumn
from penstock.components.packing.job import PackRows, Result, read_results
from penstock.components.packing.layout import EMPTY_COLUMNS, PackedLayout
from penstock.components.packing.options import PackOptions
from penstock.components.packing.rows import RowSplit, find_splits
from penstock.components.packing.tasks import Job, plan_job
from penstock.components.tfrecord.manifest import (
    Manifest,
    ManifestColumn,
    RowAccount,
    schema_sha256,
)

SOURCE_KIND = "examples"
# Entered while the work runs, with what tells the rows done until now, and the rows to do; each
# row is done twice, read and written.
Watch = Callable[[Callable[[], int], int], AbstractContextManager[object]]
# Called at the end with about how many passes over the row Examples, read and decoded as training
# does, cost as much CPU time as packing them did.
OnCost = Callable[[float], None]

# For the results of a thousand shards, where the disk is full.
_ROOM_BYTES = 256 * 1024


def pack(
    examples: str,
    output: str | PathLike[str],
    options: PackOptions,
    *,
    stated: Mapping[str, StatedColumn] | None = None,
    overwrite: bool = False,
    make_pipeline: MakePipeline = local_pipeline,
    watch: Watch = lambda rows_done, rows: nullcontext(),
    on_cost: OnCost = lambda passes: None,
    origin: tuple[Manifest, Sequence[RowSplit]] | None = None,
) -> Manifest:
    """Pack the splits of a folder of row Examples; the output appears complete or not at all.

    Args:
        examples: Folder with `Split-*/`, Penstock's or any that TFX wrote.
        output: Folder to make, or an address (`s3://`, `gs://`); must not exist, or be empty,
            unless `overwrite`.
        options: What to keep and how.
        stated: Columns and shapes as a schema has them; None takes them from the rows.
        overwrite: Replace what stands at `output`.
        make_pipeline: Gives the Beam pipeline that does the work.
        watch: Sees to the progress.
        on_cost: Told at the end what it cost.
        origin: Of rows that are no Examples: their source's account, and all splits.

    Raises:
        DataError: The rows cannot be read, or do not fit what is asked for.
        UsageError: There is no such split or column, or `output` cannot be used.
    """
    began = _cpu_seconds()
    splits = origin[1] if origin else find_splits(examples, options.splits)
    rows = sum(split.rows for split in splits)
    if not rows:
        raise DataError(f"{examples}: no rows to pack")
    job, tasks = plan_job(splits, options, stated, may_lower=origin is not None)
    with open_output(output, overwrite=overwrite) as opened:
        with opened.new_try() as folder, TemporaryDirectory(prefix="penstock-progress-") as told:
            (folder / "room").write_bytes(bytes(_ROOM_BYTES))
            work = PackRows(job, tasks, opened, folder, Path(told))
            with (
                watch(lambda: rows_done(Path(told)), 2 * rows),
                pipeline_of(make_pipeline) as pipeline,
            ):
                _ = pipeline | work
        results = read_results(opened)
        manifest = _manifest(splits, job, results)
        if origin:
            manifest = _with_origin(manifest, origin[0], Path(examples), opened)
        opened.commit(manifest)
    # Of workers elsewhere what they say, of those here also what Beam takes.
    spent = max(_cpu_seconds() - began, sum(result.cpu_seconds for result in results))
    a_pass = sum(result.pass_seconds for result in results)
    on_cost(spent / a_pass if a_pass else 0.0)
    return manifest


def _with_origin(manifest: Manifest, origin: Manifest, rows: Path, output: Output) -> Manifest:
    """The manifest with another's source and account, whose rejected rows go to the output."""
    if origin.quarantine:
        with output.new_try() as folder:
            shutil.copytree(rows / origin.quarantine, folder / origin.quarantine)
            output.take(folder)
    names = ("source_kind", "source_fingerprint", "source_files", "account", "quarantine")
    return replace(manifest, **{name: getattr(origin, name) for name in names})


def _cpu_seconds() -> float:
    """CPU time of this process and of the workers that it started and that ended."""
    return sum(os.times()[:4])


def _manifest(splits: Sequence[RowSplit], job: Job, results: Sequence[Result]) -> Manifest:
    plan, *shards = results
    layout = PackedLayout.from_dict(plan.layout or {}, "the plan")
    columns = tuple(ManifestColumn(c.name, c.kind, c.storage == "list") for c in layout.columns)
    written = {
        split.name: tuple(r.shard for r in shards if r.shard and r.split == split.name)
        for split in splits
    }
    digests = [shard.sha256 for split in splits for shard in split.shards]
    return Manifest(
        splits=written,
        columns=columns,
        schema_sha256=schema_sha256(columns),
        source_kind=SOURCE_KIND,
        source_fingerprint=_digest("".join(digests)),
        source_files=sum(len(split.files) for split in splits),
        account=RowAccount(
            read=sum(job.rows.values()),
            written={name: sum(shard.rows for shard in found) for name, found in written.items()},
        ),
        plan="; ".join(f"{name}: {shards.reason}" for name, shards in job.plans.items()),
        packed={**layout.to_dict(), EMPTY_COLUMNS: list(plan.empty)},
    )


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
