"""Sources in, an Examples folder out: plan, a Beam transform over shard tasks, commit.

    output/
      Split-train/data_tfrecord-00000-of-00008 ...
      Split-eval/data_tfrecord-00000-of-00008 ...
      quarantine/rejected-00003.jsonl ...        where rows were quarantined
      manifest.json                              written last

The elements of the Beam pipeline are tasks, never rows, so any runner whose workers reach the
input and the output does the same work and writes the same bytes.
"""

import os
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from os import PathLike
from pathlib import Path
from tempfile import TemporaryDirectory

from penstock.components.errors import DataError, UsageError
from penstock.components.example_gen.account import manifest_of
from penstock.components.example_gen.options import IngestOptions
from penstock.components.example_gen.shard_task import (
    StrictError,
    WriteBatch,
    write_examples,
)
from penstock.components.example_gen.split_options import SplitOptions
from penstock.components.example_gen.splits import check_partition
from penstock.components.example_gen.stage import MakePipeline, run_tasks
from penstock.components.example_gen.write_shards import (
    Job,
    RowsTold,
    WriteTask,
    rows_done,
    shard_tasks,
)
from penstock.components.files.output import open_output, store_address
from penstock.components.files.remote import RemoteFile
from penstock.components.sources.base import Column, Source
from penstock.components.tfrecord.encoder import encode_examples
from penstock.components.tfrecord.framing import FOOTER_BYTES, HEADER_BYTES
from penstock.components.tfrecord.manifest import Manifest
from penstock.components.tfrecord.sharding import plan_shards

# The size of a row is estimated from the first rows of this many parts of a source. Parts of
# equal bytes favour long rows: of a file whose second half is long rows, 1.4 times too much.
_SAMPLED_PLACES = 4
_SAMPLED_ROWS = 1000

Watch = Callable[[Callable[[], int]], AbstractContextManager[object]]


def plan_job(source: Source, splits: SplitOptions, options: IngestOptions) -> Job:
    """Decide the number of shards from a sample of the source's rows.

    Raises:
        UsageError: The partition feature is not one of the source's.
        StrictError: The source knows already of a row that does not fit, in strict mode.
    """
    check_partition(splits, source.columns)
    if source.rejected_by_scan and options.on_bad_row == "strict":
        raise StrictError(source.rejected_by_scan[0])
    estimate = int(_record_bytes(source) * source.rows * splits.largest_share)
    return Job(source, splits, plan_shards(estimate, options.shards, rows=source.rows))


def _unwatched(rows_done: Callable[[], int]) -> AbstractContextManager[object]:
    del rows_done
    return nullcontext()


def ingest(
    jobs: Sequence[Job],
    output: str | PathLike[str],
    options: IngestOptions,
    make_pipeline: MakePipeline,
    *,
    overwrite: bool = False,
    watch: Watch = _unwatched,
    write: WriteBatch = write_examples,
) -> Manifest:
    """Write the shards of all jobs and their manifest; all of it appears at once, or nothing.

    Args:
        jobs: Sources with their splits; their columns must agree.
        output: Folder to make, or an address (`s3://`, `gs://`); must not exist, or be empty,
            unless `overwrite`.
        options: Compression, and what to do with bad rows.
        make_pipeline: Gives the Beam pipeline that does the work.
        overwrite: Replace what stands at `output`.
        watch: Entered while the work runs, with what tells the rows read until now.
        write: Appends a batch of rows to shards.

    Raises:
        DataError: The data is bad; nothing is left at `output`.
        UsageError: `output` cannot be used.
    """
    _require_same_columns(jobs)
    _require_distinct_splits(jobs)
    require_input_elsewhere(jobs, os.fspath(output))
    with (
        open_output(output, overwrite=overwrite) as opened,
        TemporaryDirectory(prefix="penstock-progress-") as folder,
    ):
        progress = Path(folder)
        with watch(lambda: rows_done(progress)):
            work = WriteTask(opened, options, RowsTold(progress), write)
            results = run_tasks(shard_tasks(jobs), work, opened, make_pipeline)
        manifest = manifest_of(jobs, options, results)
        _check_all_read(manifest, jobs)
        opened.commit(manifest)
    return manifest


def _record_bytes(source: Source) -> float:
    """Mean size of a row as a framed record, from rows at several places of the source."""
    size = rows = 0
    for pieces in source.cut(_SAMPLED_PLACES):
        batch = next(source.read(pieces), None)
        if batch is not None and batch.table.num_rows:
            records = batch.records
            if records is None:
                records = encode_examples(batch.table.slice(0, _SAMPLED_ROWS))
            size += records.nbytes + len(records) * (HEADER_BYTES + FOOTER_BYTES)
            rows += len(records)
    return size / rows if rows else source.input_bytes / max(1, source.rows)


def _check_all_read(manifest: Manifest, jobs: Sequence[Job]) -> None:
    counted = sum(job.source.rows for job in jobs)
    if manifest.account.read != counted:
        raise DataError(
            f"{manifest.account.read:,} rows were read where the source counted {counted:,}; "
            "the input changed, or its reader is at fault: report it"
        )


def _require_distinct_splits(jobs: Sequence[Job]) -> None:
    names = [split.name for job in jobs for split in job.splits.splits]
    for name in names:
        if names.count(name) > 1:
            raise UsageError(f"split {name!r} is given {names.count(name)} times; name each once")


def require_input_elsewhere(jobs: Sequence[Job], output: str) -> None:
    """Refuse, by UsageError, an output with an input in it."""
    target = store_address(output) or os.path.realpath(output)
    # A folder at a time: a million images are in a few, and to resolve a path costs 50 us.
    resolved: dict[str, str] = {}
    for file in (file for job in jobs for file in job.source.files):
        place = file if os.path.islink(file) else os.path.dirname(file)
        if place not in resolved:
            resolved[place] = place if isinstance(file, RemoteFile) else os.path.realpath(place)
            if os.path.join(resolved[place], "").startswith(os.path.join(target, "")):
                raise UsageError(f"{output}: holds the input {file}; name another output")


def _require_same_columns(jobs: Sequence[Job]) -> None:
    first = jobs[0]
    kinds = {c.name: c for c in first.source.columns}
    for job in jobs[1:]:
        other = {c.name: c for c in job.source.columns}
        for name in kinds.keys() | other.keys():
            if kinds.get(name) != other.get(name):
                raise DataError(
                    f"column {name!r} is {_shown(kinds.get(name))} in split "
                    f"{first.splits.splits[0].name!r} but {_shown(other.get(name))} in split "
                    f"{job.splits.splits[0].name!r}; give both a schema, or fix the input"
                )


def _shown(column: Column | None) -> str:
    if column is None:
        return "missing"
    return f"a list of {column.kind.value}" if column.is_list else column.kind.value
