"""The splits of an ingest and their shares: names and integers."""

import os
from dataclasses import dataclass

from penstock.components.errors import UsageError
from penstock.components.tfrecord.sharding import split_dir

_MOST_BYTES = 255 - len(split_dir(""))  # of a folder's name


@dataclass(frozen=True)
class Split:
    """A split and its share of the hash buckets."""

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
    """How rows are divided.

    Attributes:
        splits: Names and shares; two train rows to one eval row is TFX's default.
        partition_feature: Hash this feature alone, so that rows that share its value
            share their split; None hashes the whole row.
    """

    splits: tuple[Split, ...] = (Split("train", 2), Split("eval", 1))
    partition_feature: str | None = None

    def __post_init__(self) -> None:
        names = [split.name for split in self.splits]
        if not names or len(set(names)) != len(names):
            raise UsageError(f"splits need distinct names, got {names}")

    @property
    def largest_share(self) -> float:
        """Share of all rows that the largest split is expected to get."""
        buckets = [split.hash_buckets for split in self.splits]
        return max(buckets) / sum(buckets)
