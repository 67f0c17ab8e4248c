"""Histograms on common bins, and how far two of them are apart: plain numbers, no protos."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from penstock.pipelines.reporting.numbers import span

# As many as TFDV's own histograms have.
BINS = 10


@dataclass(frozen=True)
class Bar:
    """One bar: what it counts, and how many.

    Attributes:
        label: A category, or a range as text.
        count: Values in it, not always whole: TFDV interpolates.
    """

    label: str
    count: float


@dataclass(frozen=True)
class Bucket:
    """Values from `low` up to `high`."""

    low: float
    high: float
    count: float


def rebin(buckets: Sequence[Bucket], low: float, high: float, bins: int = BINS) -> list[float]:
    """Counts in equal bins of [low, high]; values lie evenly within their bucket."""
    counts = [0.0] * bins
    width = (high - low) / bins
    for bucket in buckets:
        if not width or bucket.high <= bucket.low:
            at = 0 if not width else min(bins - 1, max(0, int((bucket.low - low) / width)))
            counts[at] += bucket.count
            continue
        for i in range(bins):
            left, right = low + i * width, low + (i + 1) * width
            shared = min(right, bucket.high) - max(left, bucket.low)
            if shared > 0:
                counts[i] += bucket.count * shared / (bucket.high - bucket.low)
    return counts


def common_bins(histograms: Sequence[Sequence[Bucket]]) -> list[list[Bar]]:
    """Several histograms on the same bins, so that they can stand side by side."""
    ends = [end for buckets in histograms for b in buckets for end in (b.low, b.high)]
    finite = [end for end in ends if math.isfinite(end)]
    if not finite:
        return [[] for _ in histograms]
    low, high = min(finite), max(finite)
    width = (high - low) / BINS
    labels = [span(low + i * width, low + (i + 1) * width, width) for i in range(BINS)]
    known = [[b for b in h if math.isfinite(b.low) and math.isfinite(b.high)] for h in histograms]
    return [[Bar(*pair) for pair in zip(labels, rebin(h, low, high), strict=True)] for h in known]


def common_labels(histograms: Sequence[Mapping[str, float]], most: int = BINS) -> list[list[Bar]]:
    """Category counts in the same order, those of the first histogram's most frequent ones."""
    totals: dict[str, float] = {}
    for counts in histograms:
        for label, count in counts.items():
            totals[label] = totals.get(label, 0) + count
    labels = sorted(totals, key=lambda label: (-totals[label], label))[:most]
    return [[Bar(label, counts.get(label, 0)) for label in labels] for counts in histograms]


def largest_change(first: Mapping[str, float], second: Mapping[str, float]) -> float | None:
    """L-infinity distance of two categorical distributions, 0..1, as TFDV's comparators take it."""
    total_first, total_second = sum(first.values()), sum(second.values())
    if not total_first or not total_second:
        return None
    return max(
        abs(first.get(label, 0) / total_first - second.get(label, 0) / total_second)
        for label in {*first, *second}
    )


def jensen_shannon(first: Sequence[float], second: Sequence[float]) -> float | None:
    """Jensen-Shannon divergence in bits of two histograms on the same bins, 0..1."""
    total_first, total_second = sum(first), sum(second)
    if not total_first or not total_second:
        return None
    p = [count / total_first for count in first]
    q = [count / total_second for count in second]
    middle = [(a + b) / 2 for a, b in zip(p, q, strict=True)]
    # Rounding can leave a hair below 0.
    return max(0.0, (_divergence(p, middle) + _divergence(q, middle)) / 2)


def _divergence(p: Sequence[float], middle: Sequence[float]) -> float:
    return sum(a * math.log2(a / m) for a, m in zip(p, middle, strict=True) if a > 0)
