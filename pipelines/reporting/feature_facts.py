"""Facts about the features of each split, from an ExampleStatistics artifact."""

import contextlib
import math
import posixpath
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tensorflow_metadata.proto.v0 import statistics_pb2

from penstock.components.errors import DataError
from penstock.components.gates.drift import by_name, distances, nan_count, present
from penstock.pipelines.reporting.artifact_files import read_bytes, split_folder, splits_in
from penstock.pipelines.reporting.histograms import (
    BINS,
    Bar,
    Bucket,
    Histogram,
    common_bins,
    common_labels,
)

_FILE = "FeatureStats.pb"
_NO_TEXT = "__BYTES_VALUE__"  # TFDV shows this text for bytes that are not UTF-8
_Feature = statistics_pb2.FeatureNameStatistics


@dataclass(frozen=True)
class SplitFeature:
    """A feature in one split.

    Attributes:
        distinct: Number of distinct values; None for numbers.
        top: The most frequent value, if values are texts.
        bars: Histogram with the same bins in all splits.
    """

    rows: int
    missing: int
    distinct: int | None
    top: Sequence[Bar]
    numbers: Mapping[str, float]
    bars: Sequence[Bar]

    @property
    def missing_share(self) -> float:
        return self.missing / self.rows if self.rows else 0.0


@dataclass(frozen=True)
class FeatureFacts:
    """Facts about one feature: in each split, and its distances between splits and runs.

    Attributes:
        skew: Distance between the first two splits, 0..1.
        drift: Distance between the first split of this run and of an earlier run, 0..1.
    """

    name: str
    kind: str
    splits: Mapping[str, SplitFeature | None]
    skew: float | None
    drift: float | None

    @property
    def bars(self) -> dict[str, Sequence[Bar]]:
        return {split: of.bars for split, of in self.splits.items() if of and of.bars}


@dataclass(frozen=True)
class StatisticsFacts:
    """All features in all splits.

    Attributes:
        compared_with: Id of the earlier run from which `drift` is measured; None without one.
    """

    rows: Mapping[str, int]
    features: Sequence[FeatureFacts]
    compared_with: str | None = None


def gather_statistics(uri: str, *, previous: tuple[str, str] | None = None) -> StatisticsFacts:
    """Gathers an artifact's facts; `previous` is an earlier run's id and its statistics' URI."""
    by_split, before = _read(uri), None
    if previous:
        with contextlib.suppress(DataError):  # statistics of an earlier run may have been removed
            before = next(iter(_read(previous[1]).values()))
    first, *others = by_split.values()
    skew = _distances(first, others[0]) if others else {}
    drift = _distances(before, first) if before is not None else {}
    found = {split: by_name(statistics) for split, statistics in by_split.items()}
    rows = {split: int(statistics.num_examples) for split, statistics in by_split.items()}
    features = []
    for name in dict.fromkeys(name for of_split in found.values() for name in of_split):
        kind, splits = _splits({split: of.get(name) for split, of in found.items()}, rows)
        features.append(FeatureFacts(name, kind, splits, skew.get(name), drift.get(name)))
    return StatisticsFacts(rows, features, previous[0] if previous and before else None)


def _read(uri: str) -> dict[str, Any]:
    by_split = {}
    try:
        for split in splits_in(uri):
            content = read_bytes(posixpath.join(split_folder(uri, split), _FILE))
            found = statistics_pb2.DatasetFeatureStatisticsList.FromString(content)
            by_split[split] = found.datasets[0]
    except OSError as error:
        raise DataError(f"{uri}: the statistics are not there") from error
    if not by_split:
        raise DataError(f"{uri}: no split has statistics")
    return by_split


def _distances(before: Any, now: Any) -> dict[str, float]:
    return dict(distances(before, now)) if before.num_examples and now.num_examples else {}


def _splits(
    by_split: Mapping[str, Any], rows: Mapping[str, int]
) -> tuple[str, dict[str, SplitFeature | None]]:
    """Returns the type of a feature, and its facts by split."""
    features = [f for f in by_split.values() if f is not None]
    if all(f.WhichOneof("stats") == "num_stats" for f in features):
        bars = common_bins([_histogram(f) for f in by_split.values()])
    else:
        bars = common_labels([_labels(f) for f in by_split.values()])
    splits = {
        split: None if feature is None else _split(feature, rows[split], own)
        for (split, feature), own in zip(by_split.items(), bars, strict=True)
    }
    return _Feature.Type.Name(features[0].type).lower(), splits


def _split(feature: Any, rows: int, bars: Sequence[Bar]) -> SplitFeature:
    kind, texts = feature.WhichOneof("stats"), feature.string_stats
    return SplitFeature(
        rows=rows,
        # TFDV's `num_missing` cannot be used: it leaves out rows without the parent feature.
        missing=max(0, rows - present(feature)) if kind else rows,
        distinct=int(texts.unique) if kind == "string_stats" else None,
        top=[Bar(t.value, t.frequency) for t in texts.top_values[:1] if t.value != _NO_TEXT],
        numbers=_numbers(feature) if kind == "num_stats" else {},
        bars=bars,
    )


def _numbers(feature: Any) -> dict[str, float]:
    stats = feature.num_stats
    return {
        "mean": stats.mean,
        "deviation": stats.std_dev,
        "minimum": stats.min,
        "median": stats.median,
        "maximum": stats.max,
        "zeros": float(stats.num_zeros),
        "NaN": float(nan_count(feature)),
    }


def _histogram(feature: Any) -> Histogram:
    if feature is None:
        return Histogram(())
    kinds = statistics_pb2.Histogram
    by_kind = {histogram.type: histogram for histogram in feature.num_stats.histograms}
    equal, deciles = by_kind.get(kinds.STANDARD), by_kind.get(kinds.QUANTILES)
    buckets = _buckets(equal)
    if feature.type == _Feature.INT and buckets and buckets[-1].high - buckets[0].low < BINS:
        # The buckets have equal widths of at most 1 and start at an integer, so each contains at
        # most one integer.
        return Histogram([Bucket(at, at, b.count) for b in buckets if b.count for at in [_of(b)]])
    return Histogram(buckets, _buckets(deciles))


def _of(bucket: Bucket) -> float:
    """Returns the integer in a bucket; the last bucket includes its upper end."""
    low = math.ceil(bucket.low)
    return float(low if low < bucket.high or low == bucket.low else round(bucket.high))


def _buckets(histogram: Any) -> list[Bucket]:
    if histogram is None:
        return []
    return [Bucket(b.low_value, b.high_value, b.sample_count) for b in histogram.buckets]


def _labels(feature: Any) -> dict[str, float]:
    if feature is None:
        return {}
    ranks = feature.string_stats.rank_histogram.buckets
    return {bucket.label: bucket.sample_count for bucket in ranks}
