"""Options of an ingest: shards, compression, rejected rows."""

from dataclasses import dataclass, field
from typing import Literal, get_args

from penstock.components.errors import UsageError
from penstock.components.tfrecord.manifest import (
    MAX_QUARANTINED_SHARE,
    check_quarantined_share,
)
from penstock.components.tfrecord.sharding import COMPRESSIONS, ShardOptions

OnBadRow = Literal["strict", "quarantine"]


@dataclass(frozen=True)
class IngestOptions:
    """How rows become shards.

    Attributes:
        shards: How many shards a split has.
        compression: `""` or `"GZIP"`.
        on_bad_row: `strict` stops at the first row that does not fit; `quarantine` keeps
            it aside with its reason and goes on.
        max_quarantined_share: Share of all rows above which quarantine stops the ingest.
        parquet_copy: Whether to write the rows as Parquet too, for analysis.
    """

    shards: ShardOptions = field(default_factory=ShardOptions)
    compression: str = ""
    on_bad_row: OnBadRow = "strict"
    max_quarantined_share: float = MAX_QUARANTINED_SHARE
    parquet_copy: bool = False

    def __post_init__(self) -> None:
        if self.compression not in COMPRESSIONS:
            raise UsageError(f"compression must be one of {COMPRESSIONS}, got {self.compression!r}")
        if self.on_bad_row not in get_args(OnBadRow):
            raise UsageError(
                f"`on_bad_row` must be one of {get_args(OnBadRow)}, got {self.on_bad_row!r}"
            )
        check_quarantined_share(self.max_quarantined_share)
