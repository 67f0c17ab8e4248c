"""Which split a row belongs to, by the same rule as TFX's ExampleGens.

A row's split depends on its content alone, never on its place: the sha256 of the
serialized Example (or of one feature of it) modulo the number of hash buckets. Equal rows
stay together, and a move from CsvExampleGen keeps every row in its split.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.components.errors import DataError, UsageError
from penstock.components.sources.base import Column, FeatureKind
from penstock.components.tfrecord.encoder import encode_features


@dataclass(frozen=True)
class Split:
    """A split and its share of the hash buckets."""

    name: str
    hash_buckets: int = 1

    def __post_init__(self) -> None:
        if not self.name or "/" in self.name:
            raise ValueError(f"a split's name must be a folder's, got {self.name!r}")
        if self.hash_buckets < 1:
            raise ValueError(
                f"split {self.name!r}: hash_buckets must be at least 1, got {self.hash_buckets}"
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
            raise ValueError(f"splits need distinct names, got {names}")

    @property
    def largest_share(self) -> float:
        """Share of all rows that the largest split is expected to get."""
        buckets = [split.hash_buckets for split in self.splits]
        return max(buckets) / sum(buckets)

    def check(self, columns: Sequence[Column]) -> None:
        """Refuse a partition feature that the rows do not have or that cannot be hashed.

        Raises:
            UsageError: Names the feature and the choices.
        """
        name = self.partition_feature
        if name is None:
            return
        hashable = [c.name for c in columns if c.kind is not FeatureKind.FLOAT]
        if name not in hashable:
            raise UsageError(
                f"partition feature {name!r} must be an INT or BYTES feature of the data; "
                f"choices: {', '.join(hashable)}"
            )


def assign_splits(
    table: pa.RecordBatch, records: pa.BinaryArray, options: SplitOptions
) -> npt.NDArray[np.int64]:
    """Index into `options.splits` for each row.

    Args:
        table: The rows, as a source gave them.
        records: The same rows as serialized Examples.
        options: The splits.

    Raises:
        DataError: A row has no value for the partition feature.
    """
    if len(options.splits) == 1:
        return np.zeros(len(records), np.int64)
    bounds = np.cumsum([split.hash_buckets for split in options.splits])
    if options.partition_feature is None:
        buckets = _buckets(records, int(bounds[-1]))
    else:
        keys = _partition_keys(table, options.partition_feature)
        distinct = keys.dictionary_encode()
        buckets = _buckets(distinct.dictionary, int(bounds[-1]))[distinct.indices.to_numpy()]
    return np.searchsorted(bounds, buckets, side="right")


def _partition_keys(table: pa.RecordBatch, name: str) -> pa.BinaryArray:
    column = table.column(table.schema.get_field_index(name))
    if column.null_count:
        raise DataError(
            f"partition feature {name!r} has no value in {column.null_count} row(s); "
            "fill it in or split by another feature"
        )
    return encode_features(column)


def _buckets(keys: pa.BinaryArray, total: int) -> npt.NDArray[np.int64]:
    digests = (hashlib.sha256(key).digest() for key in keys.to_numpy(zero_copy_only=False))
    hashes = (int.from_bytes(digest, "big") % total for digest in digests)
    return np.fromiter(hashes, np.int64, len(keys))
