"""Divides rows into splits by the same rule as TFX's ExampleGens.

A row's split depends only on its content, not on its position. The row's bucket is the sha256 of
the serialized Example (or of one feature) modulo the number of hash buckets. Equal rows are in the
same split. Rows that CsvExampleGen divided before get the same split again if there is a partition
feature; without one, only rows without nulls do. CsvExampleGen writes a null as an empty list,
which TFDV does not count as missing. Penstock writes it as a feature without a list, which TFDV
counts as missing, so the bytes and their hash differ.

If rows are whole files (images), the content of the file decides instead, not its name or label, so
that copies of a file are never in both train and eval.
"""

import hashlib
import math
from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal, InvalidOperation

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.components.errors import DataError, UsageError, counted
from penstock.components.example_gen.options import SplitOptions
from penstock.components.sources.base import Column
from penstock.components.sources.tokens import INT64_MAX, INT64_MIN
from penstock.components.tfrecord.encoder import encode_features
from penstock.components.tfrecord.feature_kind import FeatureKind

_RANGES: dict[FeatureKind, tuple[float, float]] = {
    FeatureKind.INT: (INT64_MIN, INT64_MAX),
    FeatureKind.FLOAT: (float(np.finfo(np.float32).min), float(np.finfo(np.float32).max)),
}


def check_partition(options: SplitOptions, columns: Sequence[Column]) -> None:
    """Raises UsageError if the partition feature or `split_at` does not fit the columns."""
    if options.split_at is not None:
        _check_threshold(options, columns)
        return
    hashable = [c.name for c in columns if c.kind is not FeatureKind.FLOAT]
    if options.partition_feature not in (None, *hashable):
        raise UsageError(
            f"partition feature {options.partition_feature!r} must be an INT or BYTES feature "
            f"of the data; choices: {', '.join(hashable)}"
        )


def assign_splits(
    table: pa.RecordBatch, digests: Iterable[bytes], options: SplitOptions
) -> npt.NDArray[np.int64]:
    """Returns the index of each row's split in `options.splits`, int64 [rows].

    `digests` has the sha256 of each row; it may be lazy, because it is read only if there is no
    partition feature.
    """
    if len(options.splits) == 1:
        return np.zeros(table.num_rows, np.int64)
    if options.split_at is not None:
        return _is_late(table, str(options.partition_feature), options.split_at).astype(np.int64)
    bounds = np.cumsum([split.hash_buckets for split in options.splits])
    if options.partition_feature is None:
        buckets = _buckets(digests, int(bounds[-1]))
    else:
        keys = encode_features(_complete_column(table, options.partition_feature))
        distinct = keys.dictionary_encode()
        by_value = _buckets(row_digests(distinct.dictionary), int(bounds[-1]))
        buckets = by_value[distinct.indices.to_numpy()]
    return np.searchsorted(bounds, buckets, side="right")


def _check_threshold(options: SplitOptions, columns: Sequence[Column]) -> None:
    kinds = {c.name: c.kind for c in columns if not c.is_list}
    name = options.partition_feature
    if name not in kinds or len(options.splits) != 2:
        raise UsageError(
            f"`split_at` divides into two splits by a partition feature; got "
            f"{len(options.splits)} splits and {name!r}"
        )
    if kinds[name] is FeatureKind.BYTES:
        return
    low, high = _RANGES[kinds[name]]
    try:
        value = Decimal(str(options.split_at))
    except InvalidOperation:
        value = Decimal("NaN")
    if not (value.is_finite() and low <= value <= high):
        raise UsageError(
            f"`split_at`: {name!r} holds numbers: give one from {low} to {high}, got "
            f"{options.split_at!r}"
        )


def _is_late(table: pa.RecordBatch, name: str, threshold: str) -> npt.NDArray[np.bool_]:
    """Returns whether each row's value is at least the threshold; texts are compared as bytes."""
    column = _complete_column(table, name)
    if pa.types.is_integer(column.type):
        # float64 would merge neighbouring whole numbers beyond 2^53.
        late = pc.greater_equal(column, pa.scalar(math.ceil(Decimal(threshold)), pa.int64()))
    elif pa.types.is_floating(column.type):
        # The comparison is in the column's own type, because 0.7 as float32 is less than 0.7 as
        # float64 and would miss a threshold of 0.7.
        late = pc.greater_equal(column, pa.scalar(float(threshold), column.type))
    else:
        late = pc.greater_equal(column.cast(pa.large_binary()), threshold.encode())
    return late.to_numpy(zero_copy_only=False)


def _complete_column(table: pa.RecordBatch, name: str) -> pa.Array:
    column = table.column(table.schema.get_field_index(name))
    if column.null_count:
        raise DataError(
            f"partition feature {name!r} has no value in {counted(column.null_count, 'row')}; "
            "fill it in or split by another feature"
        )
    return column


def row_digests(keys: pa.BinaryArray) -> Iterator[bytes]:
    return (hashlib.sha256(key).digest() for key in keys.to_numpy(zero_copy_only=False))


def _buckets(digests: Iterable[bytes], total: int) -> npt.NDArray[np.int64]:
    return np.fromiter((int.from_bytes(one, "big") % total for one in digests), np.int64)
