"""What all tasks of an ingest did, as one manifest, and whether its account may stand."""

import hashlib
from collections.abc import Mapping, Sequence

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
    jobs: Sequence[Job], options: IngestOptions, results: Sequence[TaskResult]
) -> Manifest:
    """The manifest of what the jobs' tasks wrote."""
    splits = _shards_by_split(jobs, results)
    quarantined = sum(result.quarantined for result in results)
    columns = _manifest_columns(jobs[0].source.columns)
    return Manifest(
        splits=splits,
        columns=columns,
        schema_sha256=schema_sha256(columns),
        source_kind=jobs[0].source.kind,
        source_fingerprint=_fingerprint(jobs),
        source_files=sum(len(job.source.files) for job in jobs),
        account=RowAccount(
            read=sum(result.read for result in results),
            written={name: sum(s.rows for s in shards) for name, shards in splits.items()},
            quarantined=quarantined,
            blank=sum(result.blank for result in results),
        ),
        compression=options.compression,
        plan="; ".join(dict.fromkeys(job.plan.reason for job in jobs)),
        quarantine=QUARANTINE_DIR if quarantined else None,
        parquet=PARQUET_DIR if options.parquet_copy else None,
    )


def _shards_by_split(
    jobs: Sequence[Job], results: Sequence[TaskResult]
) -> Mapping[str, Sequence[Shard]]:
    names = [split.name for job in jobs for split in job.splits.splits]
    return {name: tuple(r.shards[name] for r in results if name in r.shards) for name in names}


def _manifest_columns(columns: Sequence[Column]) -> tuple[ManifestColumn, ...]:
    return tuple(ManifestColumn(c.name, c.kind.value, c.is_list) for c in columns)


def _fingerprint(jobs: Sequence[Job]) -> str:
    if len(jobs) == 1:
        return jobs[0].source.fingerprint
    return _digest("".join(job.source.fingerprint for job in jobs))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def check_account(
    manifest: Manifest, options: IngestOptions, results: Sequence[TaskResult]
) -> None:
    """Refuse, by DataError, more quarantined rows than the options allow, or none but such."""
    account = manifest.account
    first = next((result.first_rejected for result in results if result.first_rejected), None)
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
