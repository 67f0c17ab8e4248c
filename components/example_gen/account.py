"""The manifest of an ingest, from the results of its tasks."""

import hashlib
from collections.abc import Iterable, Sequence

from penstock.components.errors import DataError
from penstock.components.example_gen.options import IngestOptions
from penstock.components.example_gen.parquet_copy import PARQUET_DIR
from penstock.components.example_gen.quarantine import QUARANTINE_DIR
from penstock.components.example_gen.shard_task import TaskResult
from penstock.components.sources.base import Source
from penstock.components.tfrecord.manifest import (
    Manifest,
    ManifestColumn,
    RowAccount,
    Shard,
    schema_sha256,
)


def manifest_of(
    sources: Sequence[Source],
    splits: Sequence[str],
    plan: str,
    options: IngestOptions,
    results: Iterable[TaskResult],
) -> Manifest:
    """Returns the manifest of the shards; `results` of tasks are in order and drawn one by one."""
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
    written = {name: sum(shard.rows for shard in shards) for name, shards in found.items()}
    account = RowAccount(read, written, quarantined, blank)
    _check(account, options, first)
    columns = tuple(ManifestColumn(c.name, c.kind.value, c.is_list) for c in sources[0].columns)
    return Manifest(
        splits={name: tuple(shards) for name, shards in found.items()},
        columns=columns,
        schema_sha256=schema_sha256(columns),
        source_kind=sources[0].kind,
        source_fingerprint=_fingerprint([source.fingerprint for source in sources]),
        source_files=sum(len(source.files) for source in sources),
        source_snapshot="; ".join(s.snapshot for s in sources if s.snapshot) or None,
        account=account,
        compression=options.compression,
        plan=plan,
        quarantine=QUARANTINE_DIR if quarantined else None,
        parquet=PARQUET_DIR if options.parquet_copy else None,
    )


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
