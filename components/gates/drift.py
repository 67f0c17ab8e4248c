"""The distance of a feature's values from other data: two TFDV statistics in, 0..1 out.

Of words the distance is the greatest difference of one value's share, of numbers the greatest
difference of their cumulative distributions; a change in the share of rows without a value counts
as much. 0 is equal, 1 has nothing in common. TFDV keeps ten quantiles of numbers, so distances of
numbers below 0.1 say nothing.
"""

from collections.abc import Iterator, Mapping
from typing import TypeAlias

import numpy as np
from tensorflow_metadata.proto.v0 import statistics_pb2

Statistics: TypeAlias = statistics_pb2.DatasetFeatureStatistics
FeatureStatistics: TypeAlias = statistics_pb2.FeatureNameStatistics


def feature_name(feature: FeatureStatistics) -> str:
    """The feature's name, its steps joined by dots where it is nested."""
    return feature.name or ".".join(feature.path.step)


def distances(before: Statistics, now: Statistics) -> Iterator[tuple[str, float]]:
    """The distance of each feature of data that have rows; 1 of one that only one of both has."""
    old, new = by_name(before), by_name(now)
    for name in sorted(old.keys() | new.keys()):
        if name in old and name in new:
            yield name, _distance(old[name], new[name])
        else:
            yield name, 1.0


def largest_share(feature: FeatureStatistics) -> float:
    """The share of the most frequent value, of the values that are there.

    Of whole numbers that span ten or more, and of fractions, only 0 is counted.
    """
    if feature.HasField("string_stats"):
        shares = _shares(feature)
        return max(shares.values(), default=0.0)
    numbers = feature.num_stats
    total = numbers.common_stats.tot_num_values
    zeros = numbers.num_zeros / total if total else 0.0
    is_whole = feature.type == FeatureStatistics.INT
    # TFDV's ten equal buckets then have a number each.
    if not is_whole or numbers.max - numbers.min >= 10:
        return float(zeros)
    counts = [
        bucket.sample_count
        for histogram in numbers.histograms
        if histogram.type == statistics_pb2.Histogram.STANDARD
        for bucket in histogram.buckets
    ]
    return max(counts, default=0.0) / total if total else 0.0


def by_name(statistics: Statistics) -> Mapping[str, FeatureStatistics]:
    """The features by their names."""
    return {feature_name(feature): feature for feature in statistics.features}


def _distance(old: FeatureStatistics, new: FeatureStatistics) -> float:
    missing = abs(_missing(old) - _missing(new))
    if not present(old) or not present(new):
        return missing
    if old.HasField("string_stats") and new.HasField("string_stats"):
        before, now = _shares(old), _shares(new)
        words = (abs(before.get(w, 0.0) - now.get(w, 0.0)) for w in before.keys() | now.keys())
        return max(missing, *words, 0.0)
    if old.HasField("num_stats") and new.HasField("num_stats"):
        return max(missing, _apart(_quantiles(old), _quantiles(new)))
    return 1.0  # another type


def _common(feature: FeatureStatistics) -> statistics_pb2.CommonStatistics:
    return getattr(feature, feature.WhichOneof("stats")).common_stats


def nan_count(feature: FeatureStatistics) -> int:
    """Values that are NaN."""
    return max((histogram.num_nan for histogram in feature.num_stats.histograms), default=0)


def present(feature: FeatureStatistics) -> int:
    """Rows in which the feature has a value."""
    return int(_common(feature).num_non_missing)


def _missing(feature: FeatureStatistics) -> float:
    common = _common(feature)
    rows = common.num_non_missing + common.num_missing
    return float(common.num_missing / rows) if rows else 1.0


def _shares(feature: FeatureStatistics) -> dict[str, float]:
    buckets = feature.string_stats.rank_histogram.buckets
    total = feature.string_stats.common_stats.tot_num_values or sum(b.sample_count for b in buckets)
    return {bucket.label: bucket.sample_count / total for bucket in buckets} if total else {}


def _quantiles(feature: FeatureStatistics) -> np.ndarray:
    """From, to and share of each bucket of equal counts: float64 [3, buckets]."""
    for histogram in feature.num_stats.histograms:
        total = sum(bucket.sample_count for bucket in histogram.buckets)
        if histogram.type == statistics_pb2.Histogram.QUANTILES and total:
            buckets = [(b.low_value, b.high_value, b.sample_count) for b in histogram.buckets]
            return np.array(buckets).T / [[1], [1], [total]]
    return np.zeros((3, 0))


def _apart(old: np.ndarray, new: np.ndarray) -> float:
    """The greatest difference of two cumulative distributions, of `_quantiles`."""
    if not old.size or not new.size:
        return 0.0 if old.size == new.size else 1.0
    edges = np.concatenate([old[:2].ravel(), new[:2].ravel()])
    edges = edges[np.isfinite(edges)]
    differences = (
        _below(old, edges, side) - _below(new, edges, side) for side in ("left", "right")
    )
    return float(np.abs([*differences]).max(initial=0.0))


def _below(buckets: np.ndarray, edges: np.ndarray, side: str) -> np.ndarray:
    """The share of values below each edge (`left`), or up to it; even within a bucket."""
    low, high, share = buckets[:, :, None]
    with np.errstate(invalid="ignore", divide="ignore"):
        part = np.nan_to_num(np.clip((edges - low) / (high - low), 0, 1))
    whole = high <= edges if side == "right" else (high < edges) | ((high == edges) & (low < high))
    return (share * np.where(whole, 1, np.where(low < edges, part, 0))).sum(axis=0)
