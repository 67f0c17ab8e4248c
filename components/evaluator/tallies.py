"""TFMA's combiners for whole batches: sums by slice and bucket, returned as TFMA's accumulators.

Only the addition of rows is done here. TFMA's code still decides which computations a metric needs,
and how metrics are computed from sums and from other metrics.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np
from tensorflow_model_analysis.constants import INPUT_KEY
from tensorflow_model_analysis.contrib.aggregates import binary_confusion_matrices as matrices
from tensorflow_model_analysis.metrics import (
    binary_confusion_matrices,
    calibration_histogram,
    example_count,
    metric_util,
)

from penstock.components.batches.fallback import NotInBatchesError
from penstock.components.errors import DataError
from penstock.components.evaluator.inputs import Extracts, Inputs

# Number of keys to buffer before they are summed: 2 MiB with three columns. With a smaller buffer,
# the existing sums would be sorted more often.
_PENDING = 1 << 16
# (buckets int64 [n, c], values to add float64 [k, n, c], mask [n, c] of entries that count)
Added = tuple[np.ndarray, np.ndarray, np.ndarray]


class KeyedSums:
    """Sums of many columns by an integer key, in float64.

    A key is `slice number * width + bucket`. Memory grows with the number of distinct keys, not
    with the range of keys.
    """

    def __init__(self, width: int = 1) -> None:
        self.width = width  # number of buckets per slice
        self._keys: list[np.ndarray] = []
        self._columns: list[np.ndarray] = []
        self._summed = self._pending = 0

    def add(self, keys: np.ndarray, columns: np.ndarray) -> None:
        """Adds columns, float64 [k, m], to the sums of `keys`, int64 [m]; a key may occur again."""
        self._keys.append(keys)
        self._columns.append(columns)
        self._pending += len(keys)
        if self._pending > max(_PENDING, self._summed):
            self._sum()

    def between(self, first: int, last: int) -> tuple[np.ndarray, np.ndarray]:
        """Returns the keys in `[first, last)`, ascending, and their sums [k, m]."""
        if not self._keys:
            return np.zeros(0, np.int64), np.zeros((0, 0))
        if self._pending:
            self._sum()
        [keys], [columns] = self._keys, self._columns
        found = slice(*np.searchsorted(keys, (first, last)))
        return keys[found], columns[:, found]

    def merge(self, other: "KeyedSums", numbers: np.ndarray) -> None:
        """Adds the sums in `other`; `numbers` maps its slice numbers to ours, int64 [slices]."""
        if not other._keys:
            return
        if not self._keys:
            self.width = other.width
        if self.width != other.width:
            raise NotInBatchesError
        keys, columns = other.between(0, len(numbers) * other.width)
        slices, buckets = np.divmod(keys, self.width)
        self.add(numbers[slices] * self.width + buckets, columns)

    def _sum(self) -> None:
        keys, where = np.unique(np.concatenate(self._keys), return_inverse=True)
        columns = np.concatenate(self._columns, axis=1)
        sums = [np.bincount(where, column, len(keys)) for column in columns]
        self._keys, self._columns = [keys], [np.array(sums)]
        self._summed, self._pending = len(keys), 0


class Tally(ABC):
    """Sums that one combiner needs, by slice; NotInBatchesError for unsupported settings."""

    def __init__(self, combiner: Any, width: int = 1) -> None:
        self.combiner = combiner
        self.inputs = Inputs.of(combiner)
        self.sums = KeyedSums(width)

    def add(self, extracts: Extracts, rows: np.ndarray, slices: np.ndarray) -> None:
        """Adds a batch of TFMA's extracts; `rows` and `slices` are from `Slicer.members`."""
        buckets, values, counts = self.added(extracts)
        kept = counts[rows]
        keys = (slices[:, None] * self.sums.width + buckets[rows])[kept]
        self.sums.add(keys, values[:, rows][:, kept])

    def take(self) -> KeyedSums:
        """Returns the sums so far, and resets them."""
        taken, self.sums = self.sums, KeyedSums(self.sums.width)
        return taken

    def output(self, number: int) -> dict[Any, Any]:
        """Returns TFMA's metrics, by TFMA's keys, of the slice with this number."""
        first = number * self.sums.width
        keys, sums = self.sums.between(first, first + self.sums.width)
        return self.combiner.extract_output(self.accumulated(keys - first, sums))

    @abstractmethod
    def added(self, extracts: Extracts) -> Added:
        """Returns the buckets of each row, the values to add to them, and which of these count."""

    @abstractmethod
    def accumulated(self, buckets: np.ndarray, sums: np.ndarray) -> Any:
        """Returns TFMA's accumulator from the sums of some buckets; other buckets are 0."""


def without_buckets(*columns: np.ndarray) -> Added:
    """Returns columns as `Added`, to be summed per slice without buckets."""
    buckets = np.zeros(columns[0].shape, np.int64)
    return buckets, np.stack(columns), np.ones_like(buckets, bool)


def check_extracts(combiner: Any) -> None:
    """Raises NotInBatchesError for a combiner that reads extracts in its own way."""
    standard = metric_util.to_label_prediction_example_weight
    if combiner._extract_label_prediction_and_weight is not standard:
        raise NotInBatchesError


class _Count(Tally):
    def added(self, extracts: Extracts) -> Added:
        return without_buckets(self.inputs.weights(extracts, len(extracts[INPUT_KEY]))[:, None])

    def accumulated(self, buckets: np.ndarray, sums: np.ndarray) -> float:
        return float(sums.sum())


class _Histogram(Tally):
    """Histogram of labels and weights by prediction, for calibration, AUC and other metrics."""

    def __init__(self, combiner: Any) -> None:
        super().__init__(combiner, combiner._num_buckets + 2)

    def added(self, extracts: Extracts) -> Added:
        own = self.combiner
        labels, predictions, weights = self.inputs.pairs(extracts)
        if own._fractional_labels:
            _check_probabilities(labels)
        by = (predictions if own._prediction_based_bucketing else labels).astype(np.float64)
        if missing := int(np.isnan(by).any(axis=1).sum()):
            raise DataError(
                f"predictions are NaN in {missing:,} of {len(by):,} rows; expected numbers: train "
                "again with a lower learning rate, or give the model features without NaN"
            )
        index = (by - own._left) / own._range * own._num_buckets + 1
        buckets = np.clip(index, 0, self.sums.width - 1).astype(np.int64)
        added = np.stack([labels * weights, predictions * weights, weights])
        # TFMA leaves out rows with weight 0 if labels may be fractions.
        return buckets, added, (weights != 0) | (not own._fractional_labels)

    def accumulated(self, buckets: np.ndarray, sums: np.ndarray) -> Any:
        columns = (buckets.tolist(), *sums.tolist()) if len(buckets) else ()
        return {row[0]: calibration_histogram.Bucket(*row) for row in zip(*columns, strict=True)}


def _check_probabilities(labels: np.ndarray) -> None:
    outside = ~((labels >= -1e-6) & (labels <= 1 + 1e-6))  # also true for NaN
    if outside.any():
        raise DataError(
            f"label {labels[outside][0]} in {int(outside.any(axis=1).sum()):,} of "
            f"{len(labels):,} rows; a metric of two classes expects labels within 0..1"
        )


class _Matrices(Tally):
    """Binary confusion matrices; the bucket is the number of thresholds below a prediction."""

    def __init__(self, combiner: Any) -> None:
        check_extracts(combiner)
        if not combiner._enable_fractional_labels or combiner._example_id_key:
            raise NotInBatchesError
        self._thresholds = np.array(sorted(set(combiner._binary_confusion_matrices._thresholds)))
        super().__init__(combiner, len(self._thresholds) + 1)

    def added(self, extracts: Extracts) -> Added:
        labels, predictions, weights = self.inputs.pairs(extracts)
        _check_probabilities(labels)
        buckets = np.searchsorted(self._thresholds, predictions.astype(np.float64))
        buckets[np.isnan(predictions)] = 0
        added = np.stack([labels * weights, (1 - labels) * weights])
        return buckets, added, np.ones_like(buckets, bool)

    def accumulated(self, buckets: np.ndarray, sums: np.ndarray) -> Any:
        by_bucket = np.zeros((2, self.sums.width))
        if len(buckets):
            by_bucket[:, buckets] = sums
        below = by_bucket.cumsum(axis=1)[:, :-1]
        above = by_bucket[:, ::-1].cumsum(axis=1)[:, ::-1][:, 1:]
        counts = zip(above[0], below[1], above[1], below[0], strict=True)
        return {
            threshold: matrices._ThresholdEntry(matrices.Matrix(*map(float, of)), [], [], [], [])
            for threshold, of in zip(self._thresholds.tolist(), counts, strict=True)
        }


# Class of the tally for each combiner.
BINARY: dict[type, Callable[[Any], Tally]] = {
    example_count._ExampleCountCombiner: _Count,
    calibration_histogram._CalibrationHistogramCombiner: _Histogram,
    binary_confusion_matrices._BinaryConfusionMatrixCombiner: _Matrices,
}
