"""Distance between a feature's values in two data sets, 0..1, from their TFDV statistics.

For texts, the distance is the largest difference in the share of one value; for numbers, it is the
largest difference between the cumulative distributions. A change in the share of rows without a
value counts too. A distance of 0 means equal distributions; 1 means that the two data sets have
nothing in common. TFDV keeps ten quantiles of numbers, so for numbers a distance below 0.1 may be
noise.
"""

from collections.abc import Iterator, Mapping
from typing import TypeAlias

import numpy as np
from tensorflow_metadata.proto.v0 import statistics_pb2

Statistics: TypeAlias = statistics_pb2.DatasetFeatureStatistics
FeatureStatistics: TypeAlias = statistics_pb2.FeatureNameStatistics


def feature_name(feature: FeatureStatistics) -> str:
    """Returns the feature's name; the steps of a nested name are joined by dots."""
    return feature.name or ".".join(feature.path.step)


def distances(before: Statistics, now: Statistics) -> Iterator[tuple[str, float]]:
    """Yields each feature's distance: 1 if only one data set has it; both sets must have rows."""
    old, new = by_name(before), by_name(now)
    for name in sorted(old.keys() | new.keys()):
        if name in old and name in new:
            yield name, _distance(old[name], new[name])
        else:
            yield name, 1.0


def largest_share(feature: FeatureStatistics) -> float:
    """Returns the share of the most frequent value among the values present.

    For fractions, and for whole numbers with a range of ten or more, it is the share of the value
    0, because TFDV counts no other single value.
    """
    if feature.HasField("string_stats"):
        shares = _shares(feature)
        return max(shares.values(), default=0.0)
    numbers = feature.num_stats
    total = numbers.common_stats.tot_num_values
    zeros = numbers.num_zeros / total if total else 0.0
    is_whole = feature.type == FeatureStatistics.INT
    # If the range of whole numbers is below ten, each of TFDV's ten buckets of equal width contains
    # at most one distinct value.
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
    return {feature_name(feature): feature for feature in statistics.features}


def _distance(old: FeatureStatistics, new: FeatureStatistics) -> float:
    missing = abs(missing_share(old) - missing_share(new))
    if not present(old) or not present(new):
        return missing
    if old.HasField("string_stats") and new.HasField("string_stats"):
        before, now = _shares(old), _shares(new)
        words = (abs(before.get(w, 0.0) - now.get(w, 0.0)) for w in before.keys() | now.keys())
        return max(missing, *words, 0.0)
    if old.HasField("num_stats") and new.HasField("num_stats"):
        return max(missing, _apart(_quantiles(old), _quantiles(new)))
    return 1.0  # The features have different types


def _common(feature: FeatureStatistics) -> statistics_pb2.CommonStatistics:
    return getattr(feature, feature.WhichOneof("stats")).common_stats


def nan_count(feature: FeatureStatistics) -> int:
    return max((histogram.num_nan for histogram in feature.num_stats.histograms), default=0)


def present(feature: FeatureStatistics) -> int:
    return int(_common(feature).num_non_missing)


def missing_share(feature: FeatureStatistics) -> float:
    """Returns the share of rows without a value, 0..1."""
    common = _common(feature)
    rows = common.num_non_missing + common.num_missing
    return float(common.num_missing / rows) if rows else 1.0


def _shares(feature: FeatureStatistics) -> dict[str, float]:
    buckets = feature.string_stats.rank_histogram.buckets
    total = feature.string_stats.common_stats.tot_num_values or sum(b.sample_count for b in buckets)
    return {bucket.label: bucket.sample_count / total for bucket in buckets} if total else {}


def _quantiles(feature: FeatureStatistics) -> np.ndarray:
    """Returns low end, high end and share of each quantile bucket, float64 [3, buckets]."""
    for histogram in feature.num_stats.histograms:
        total = sum(bucket.sample_count for bucket in histogram.buckets)
        if histogram.type == statistics_pb2.Histogram.QUANTILES and total:
            buckets = [(b.low_value, b.high_value, b.sample_count) for b in histogram.buckets]
            return np.array(buckets).T / [[1], [1], [total]]
    return np.zeros((3, 0))


def _apart(old: np.ndarray, new: np.ndarray) -> float:
    """Returns the largest difference between two cumulative distributions."""
    if not old.size or not new.size:
        return 0.0 if old.size == new.size else 1.0
    edges = np.concatenate([old[:2].ravel(), new[:2].ravel()])
    edges = edges[np.isfinite(edges)]
    differences = (
        _below(old, edges, side) - _below(new, edges, side) for side in ("left", "right")
    )
    return float(np.abs([*differences]).max(initial=0.0))


def _below(buckets: np.ndarray, edges: np.ndarray, side: str) -> np.ndarray:
    """Returns the share of values below each edge, or up to it if `side` is "right".

    Within a bucket, values are taken as uniformly distributed.
    """
    low, high, share = buckets[:, :, None]
    with np.errstate(invalid="ignore", divide="ignore"):
        part = np.nan_to_num(np.clip((edges - low) / (high - low), 0, 1))
    whole = high <= edges if side == "right" else (high < edges) | ((high == edges) & (low < high))
    return (share * np.where(whole, 1, np.where(low < edges, part, 0))).sum(axis=0)
