"""What all tasks of an ingest did, as one manifest whose account may stand."""

import hashlib
from collections.abc import Iterable, Sequence

from penstock.components.errors import DataError
from penstock.components.example_gen.options import IngestOptions
from penstock.components.example_gen.parquet_copy import PARQUET_DIR
from penstock.components.example_gen.quarantine import QUARANTINE_DIR
from penstock.components.example_gen.shard_task import TaskResult
from penstock.components.example_gen.write_shards import Job
from penstock.components.sources.base import Column
from penstock.components.tfrecord.manifest import (
    Manifest,
    ManifestColumn,
    RowAccount,
    Shard,
    schema_sha256,
)


def manifest_of(
    jobs: Sequence[Job], options: IngestOptions, results: Iterable[TaskResult]
) -> Manifest:
    """The manifest of what the jobs' tasks wrote.

    Raises:
        DataError: More rows are quarantined than the options allow, or all.
    """
    found: dict[str, list[Shard]] = {s.name: [] for job in jobs for s in job.splits.splits}
    read = quarantined = blank = 0
    first = None
    for result in results:
        for name, shard in result.shards.items():
            found[name].append(shard)
        read += result.read
        quarantined += result.quarantined
        blank += result.blank
        first = first or result.first_rejected
    written = {name: sum(shard.rows for shard in shards) for name, shards in found.items()}
    account = RowAccount(read, written, quarantined, blank)
    _check(account, options, first)
    columns = _manifest_columns(jobs[0].source.columns)
    return Manifest(
        splits={name: tuple(shards) for name, shards in found.items()},
        columns=columns,
        schema_sha256=schema_sha256(columns),
        source_kind=jobs[0].source.kind,
        source_fingerprint=_fingerprint(jobs),
        source_files=sum(len(job.source.files) for job in jobs),
        account=account,
        compression=options.compression,
        plan="; ".join(dict.fromkeys(job.plan.reason for job in jobs)),
        quarantine=QUARANTINE_DIR if quarantined else None,
        parquet=PARQUET_DIR if options.parquet_copy else None,
    )


def _manifest_columns(columns: Sequence[Column]) -> tuple[ManifestColumn, ...]:
    return tuple(ManifestColumn(c.name, c.kind.value, c.is_list) for c in columns)


def _fingerprint(jobs: Sequence[Job]) -> str:
    if len(jobs) == 1:
        return jobs[0].source.fingerprint
    return _digest("".join(job.source.fingerprint for job in jobs))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _check(account: RowAccount, options: IngestOptions, first: str | None) -> None:
    """Refuse more quarantined rows than the options allow, or none but such."""
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
