"""Histograms with common bins: plain numbers, no protos."""

import bisect
import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from penstock.pipelines.reporting.numbers import compact, span

# TFDV's number of bins in a histogram.
BINS = 10
_NEARLY_ALL = 0.8


@dataclass(frozen=True)
class Bar:
    """A category or range as text, and its count, a fraction if `rebin` interpolated it."""

    label: str
    count: float


@dataclass(frozen=True)
class Bucket:
    low: float
    high: float
    count: float


@dataclass(frozen=True)
class Histogram:
    """Distribution of a number.

    Attributes:
        deciles: Buckets with a tenth of the values each, which are narrow where values are dense.
    """

    equal: Sequence[Bucket]
    deciles: Sequence[Bucket] = ()

    @property
    def has_tail(self) -> bool:
        """Whether deciles are known and one bucket of `equal` has over 80 % of the values."""
        total = sum(bucket.count for bucket in self.equal)
        most = max((bucket.count for bucket in self.equal), default=0)
        return len(self.deciles) > 2 and most > _NEARLY_ALL * total

    @property
    def middle(self) -> tuple[float, float]:
        """Range from the first to the ninth decile; `common_bins` divides it if there is a tail."""
        return self.deciles[0].high, self.deciles[-1].low


def rebin(buckets: Sequence[Bucket], edges: Sequence[float]) -> list[float]:
    """Returns counts between edges, as if values were evenly spread within each bucket."""
    counts = [0.0] * (len(edges) - 1)
    for bucket in buckets:
        if bucket.high <= bucket.low:
            at = bisect.bisect_right(edges, bucket.low) - 1
            counts[min(max(at, 0), len(counts) - 1)] += bucket.count
            continue
        for i, (left, right) in enumerate(itertools.pairwise(edges)):
            shared = min(right, bucket.high) - max(left, bucket.low)
            if shared > 0:
                counts[i] += bucket.count * shared / (bucket.high - bucket.low)
    return counts


def common_bins(histograms: Sequence[Histogram]) -> list[list[Bar]]:
    """Converts histograms to the same bins, so that they can be shown side by side.

    If a histogram has a long tail, the bins divide the range of its middle values, and one more bin
    on each side counts the values outside this range, if there are any.
    """
    known = [[b for b in h.equal if math.isfinite(b.low + b.high)] for h in histograms]
    ends = [end for buckets in known for b in buckets for end in (b.low, b.high)]
    if not ends:
        return [[] for _ in histograms]
    low, high = min(ends), max(ends)
    if low < high < low + BINS and all(b.low == b.high for buckets in known for b in buckets):
        return [_by_integer(buckets, int(low), int(high)) for buckets in known]
    middles = [h.middle for h in histograms if h.has_tail]
    inner = (min(m[0] for m in middles), max(m[1] for m in middles)) if middles else (low, high)
    if not low <= inner[0] < inner[1] <= high:
        inner = low, high
    edges = _edges(inner)
    labels = [span(left, right, edges[1] - edges[0]) for left, right in itertools.pairwise(edges)]
    if inner[0] > low:
        edges, labels = [low, *edges], [f"below {compact(inner[0])}", *labels]
    if inner[1] < high:
        edges, labels = [*edges, high], [*labels, f"over {compact(inner[1])}"]
    bars = []
    for histogram, finite in zip(histograms, known, strict=True):
        counts = rebin(histogram.deciles if middles and histogram.deciles else finite, edges)
        bars.append([Bar(*pair) for pair in zip(labels, counts, strict=True)])
    return bars


def _by_integer(buckets: Sequence[Bucket], low: int, high: int) -> list[Bar]:
    counts = dict.fromkeys(range(low, high + 1), 0.0)
    for bucket in buckets:
        counts[int(bucket.low)] += bucket.count
    return [Bar(f"{at:,}", count) for at, count in counts.items()]


def _edges(between: tuple[float, float]) -> list[float]:
    low, high = between
    if low == high:
        return [low, math.nextafter(high, math.inf)]
    return [low + i * (high - low) / BINS for i in range(BINS)] + [high]


def common_labels(histograms: Sequence[Mapping[str, float]], most: int = BINS) -> list[list[Bar]]:
    """Returns each histogram's bars for the categories that are most frequent in total."""
    totals: dict[str, float] = {}
    for counts in histograms:
        for label, count in counts.items():
            totals[label] = totals.get(label, 0) + count
    labels = sorted(totals, key=lambda label: (-totals[label], label))[:most]
    return [[Bar(label, counts.get(label, 0)) for label in labels] for counts in histograms]
