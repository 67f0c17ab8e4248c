"""Options of an ingest: splits, shards, compression, rejected rows."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, get_args

from penstock.components.errors import UsageError
from penstock.components.limits import check_choices, check_numbers
from penstock.components.sources.options import KindOptions
from penstock.components.tfrecord.manifest import MAX_QUARANTINED_SHARE
from penstock.components.tfrecord.sharding import COMPRESSIONS, ShardOptions, split_dir

_MOST_BYTES = 255 - len(split_dir(""))  # longest name of a split, without the prefix `Split-`
OnBadRow = Literal["strict", "quarantine"]


@dataclass(frozen=True)
class IngestOptions:
    """Options for writing rows as shards.

    Attributes:
        shards: Number of shards per split.
        compression: Compression of the shards, `GZIP` or empty.
        on_bad_row: `strict` stops at the first row that does not fit the columns; `quarantine`
            stores the row and the reason in a separate file and continues.
        max_quarantined_share: Maximum share of quarantined rows among all rows that are not blank;
            a larger share stops the ingest.
        skip_missing: Columns that must have a value; rows without one are left out and counted as
            blank.
        split_at: Value of the partition feature, such as a date; rows with this or a larger value
            form the second of two splits. Without this value, the hash of the feature or of the row
            determines the split.
    """

    shards: ShardOptions = field(default_factory=ShardOptions)
    compression: str = ""
    on_bad_row: OnBadRow = "strict"
    max_quarantined_share: float = MAX_QUARANTINED_SHARE
    skip_missing: tuple[str, ...] = ()
    split_at: str | None = None

    def __post_init__(self) -> None:
        check_choices(self, compression=COMPRESSIONS, on_bad_row=get_args(OnBadRow))
        check_numbers(self, max_quarantined_share=(0.0, 1.0))


@dataclass(frozen=True)
class Split:
    name: str
    hash_buckets: int = 1

    def __post_init__(self) -> None:
        if self.name in ("", ".", "..") or "/" in self.name or "\0" in self.name:
            raise UsageError(f"a split's name must be a folder's, got {self.name!r}")
        if (size := len(os.fsencode(self.name))) > _MOST_BYTES:
            raise UsageError(
                f"a split's name has at most {_MOST_BYTES} bytes, got {size}: {self.name[:20]!r}..."
            )
        if self.hash_buckets < 1:
            raise UsageError(
                f"split {self.name!r}: `hash_buckets` must be at least 1, got {self.hash_buckets}"
            )


@dataclass(frozen=True)
class SplitOptions:
    """Rule by which rows are divided into splits.

    Attributes:
        splits: Names and shares of the splits; by default, as in TFX, two train rows to one eval
            row.
        partition_feature: Feature whose hash alone determines the split, so that rows with equal
            values are in the same split; None hashes the whole row.
        split_at: Same as in `IngestOptions`; a value there overrides this one.
    """

    splits: tuple[Split, ...] = (Split("train", 2), Split("eval", 1))
    partition_feature: str | None = None
    split_at: str | None = None

    def __post_init__(self) -> None:
        names = [split.name for split in self.splits]
        if not names or len(set(names)) != len(names):
            raise UsageError(f"splits need distinct names, got {names}")

    @property
    def largest_share(self) -> float:
        """Share of all rows that the largest split is expected to receive."""
        buckets = [split.hash_buckets for split in self.splits]
        return max(buckets) / sum(buckets)


@dataclass(frozen=True)
class IngestInput:
    data: str | Sequence[str]  # files, a glob, a folder or an address
    source: KindOptions | None = None  # None recognizes the kind from file names and contents
    splits: SplitOptions = field(default_factory=SplitOptions)
