"""Ingests sources into an Examples folder, for `penstock ingest` and `ShardedExampleGen`.

    output/
      Split-train/data_tfrecord-00000-of-00008 ...
      Split-eval/data_tfrecord-00000-of-00008 ...
      quarantine/rejected-00003.jsonl ...        if rows were quarantined
      manifest.json                              written last

An ingest opens its sources (opening scans them), plans the shards, runs tasks that each write one
shard of every split, and commits. Every engine runs the same tasks, which write the same bytes; its
workers must be able to reach input and output.
"""

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from glob import glob
from os import PathLike

from penstock.components import activity
from penstock.components.engine.tasks import Engine, run_tasks
from penstock.components.errors import DataError, UsageError, nearest
from penstock.components.example_gen.options import IngestInput, IngestOptions, SplitOptions
from penstock.components.example_gen.shard_task import (
    QUARANTINE_DIR,
    ShardTask,
    TaskResult,
    WriteShards,
    strict_error,
)
from penstock.components.example_gen.splits import check_partition
from penstock.components.files.output import check_output, open_output, require_elsewhere
from penstock.components.sources.base import Column, Source
from penstock.components.sources.open import open_source
from penstock.components.sources.spread import Spread
from penstock.components.tfrecord.encoder import encode_examples
from penstock.components.tfrecord.framing import FOOTER_BYTES, HEADER_BYTES
from penstock.components.tfrecord.manifest import (
    Manifest,
    ManifestColumn,
    RowAccount,
    Shard,
)
from penstock.components.tfrecord.sharding import ShardPlan, plan_shards

# Number of parts of a source whose first rows are measured to estimate the size of a row. Parts of
# text have equal numbers of bytes, not of rows, so long rows count too much. For a file whose
# second half has long rows, the estimate is 1.4 times too large.
_SAMPLED_PLACES = 4
_SAMPLED_ROWS = 1000


@dataclass(frozen=True)
class PlannedInput:
    """An opened source, the splits of its rows, and the number of shards of each split."""

    source: Source
    splits: SplitOptions
    plan: ShardPlan


OnPlanned = Callable[[PlannedInput], None]


def ingest(
    inputs: Sequence[IngestInput],
    output: str | PathLike[str],
    options: IngestOptions | None = None,
    *,
    engine: Engine = 1,
    overwrite: bool = False,
    on_planned: OnPlanned = lambda planned: None,
) -> Manifest:
    """Writes the shards of all inputs and a manifest; the output appears complete or not at all.

    `on_planned` is called for each input after its scan, before anything is written.
    """
    options = options or IngestOptions()
    check_output(output, overwrite=overwrite)
    with Spread(engine, output) as spread:
        planned = []
        for one in inputs:
            data = one.data if isinstance(engine, int) else _absolute(one.data)
            planned.append(plan_input(open_source(data, one.source, spread), one.splits, options))
            on_planned(planned[-1])
        _require_same_columns(planned)
        _require_distinct_splits(planned)
        require_elsewhere((file for one in planned for file in one.source.files), output)
        return write_inputs(planned, output, options, engine=engine, overwrite=overwrite)


def plan_input(source: Source, splits: SplitOptions, options: IngestOptions) -> PlannedInput:
    """Plans the number of shards from a sample of the source's rows."""
    splits = replace(splits, split_at=options.split_at or splits.split_at)
    check_partition(splits, source.columns)
    names = [column.name for column in source.columns]
    for name in options.skip_missing:
        if name not in names:
            raise UsageError(f"`skip_missing`: no column {name!r}; {nearest(name, names)}")
    if source.rejected_by_scan and options.on_bad_row == "strict":
        raise strict_error(source.rejected_by_scan[0])
    estimate = int(_record_bytes(source) * source.rows * splits.largest_share)
    plan = plan_shards(estimate, options.shards, rows=source.rows)
    if plan.shards > source.most_parts and source.rows:
        most = max(1, source.most_parts)
        plan = ShardPlan(most, f"{most}, one for each compressed file, which cannot be cut")
    return PlannedInput(source, splits, plan)


def write_inputs(
    planned: Sequence[PlannedInput],
    output: str | PathLike[str],
    options: IngestOptions,
    *,
    engine: Engine = 1,
    overwrite: bool = False,
) -> Manifest:
    """Writes the shards of planned inputs, and commits them; see `ingest`."""
    rows = sum(one.source.rows for one in planned)
    with open_output(output, overwrite=overwrite) as opened:
        with activity.counting(rows):
            work = WriteShards(opened, options)
            results = run_tasks(shard_tasks(planned), work, opened, engine)
            manifest = manifest_of(
                [one.source for one in planned],
                [split.name for one in planned for split in one.splits.splits],
                "; ".join(dict.fromkeys(one.plan.reason for one in planned)),
                options,
                results,
            )
        if manifest.account.read != rows:
            raise DataError(
                f"{manifest.account.read:,} rows were read where the source counted {rows:,}; "
                "the input changed, or its reader is at fault: report it"
            )
        opened.commit(manifest)
    return manifest


def shard_tasks(planned: Sequence[PlannedInput]) -> Iterator[ShardTask]:
    number = 0
    for one in planned:
        for index, pieces in enumerate(one.source.cut(one.plan.shards)):
            part, own = one.source.part(pieces)
            yield ShardTask(number, part, one.splits, index, one.plan.shards, own)
            number += 1


def _absolute(data: str | Sequence[str]) -> list[str]:
    given = [data] if isinstance(data, str) else data
    return [os.path.abspath(one) if glob(one, recursive=True) else one for one in given]


def _record_bytes(source: Source) -> float:
    """Returns the mean size in bytes of a framed record, estimated from a sample of the rows."""
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


def _require_distinct_splits(planned: Sequence[PlannedInput]) -> None:
    names = [split.name for one in planned for split in one.splits.splits]
    for name in names:
        if names.count(name) > 1:
            raise UsageError(f"split {name!r} is given {names.count(name)} times; name each once")


def _require_same_columns(planned: Sequence[PlannedInput]) -> None:
    first = planned[0]
    kinds = {c.name: c for c in first.source.columns}
    for one in planned[1:]:
        other = {c.name: c for c in one.source.columns}
        for name in kinds.keys() | other.keys():
            if kinds.get(name) != other.get(name):
                raise DataError(
                    f"column {name!r} is {_kind(kinds.get(name))} in split "
                    f"{first.splits.splits[0].name!r} but {_kind(other.get(name))} in split "
                    f"{one.splits.splits[0].name!r}; give both a schema, or fix the input"
                )


def _kind(column: Column | None) -> str:
    if column is None:
        return "missing"
    return f"a list of {column.kind.value}" if column.is_list else column.kind.value


def manifest_of(
    sources: Sequence[Source],
    splits: Sequence[str],
    plan: str,
    options: IngestOptions,
    results: Iterable[TaskResult],
) -> Manifest:
    """Returns the manifest of the shards; `results` are read one by one, in the order of tasks."""
    found: dict[str, list[Shard]] = {name: [] for name in splits}
    read = quarantined = blank = 0
    first = None
    for result in results:
        for name, shard in result.shards.items():
            found[name].append(shard)
        read += result.read
        quarantined += result.quarantined
        blank += result.blank
        first = first or result.first_rejected
    manifest = Manifest.of(
        {name: tuple(shards) for name, shards in found.items()},
        tuple(ManifestColumn(c.name, c.kind.value, c.is_list) for c in sources[0].columns),
        read=read,
        quarantined=quarantined,
        blank=blank,
        source_kind=sources[0].kind,
        source_fingerprint=_fingerprint([source.fingerprint for source in sources]),
        source_files=sum(len(source.files) for source in sources),
        source_snapshot="; ".join(s.snapshot for s in sources if s.snapshot) or None,
        compression=options.compression,
        plan=plan,
        quarantine=QUARANTINE_DIR if quarantined else None,
    )
    _check(manifest.account, options, first)
    return manifest


def _fingerprint(of_sources: Sequence[str]) -> str:
    if len(of_sources) == 1:
        return of_sources[0]
    return hashlib.sha256("".join(of_sources).encode()).hexdigest()


def _check(account: RowAccount, options: IngestOptions, first: str | None) -> None:
    if account.quarantined and not sum(account.written.values()):
        raise DataError(
            f"none of {account.quarantined:,} rows fits, so there is nothing to train on; "
            f"the first is {first}"
        )
    if account.quarantined_share > options.max_quarantined_share:
        raise DataError(
            f"{account.quarantined} of {account.read - account.blank} rows do not fit "
            f"({account.quarantined_share:.2%}), more than `max_quarantined_share` "
            f"{options.max_quarantined_share:.2%} allows; the first is {first}"
        )
