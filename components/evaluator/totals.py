"""TFMA's combiners of means and of a correlation, whose accumulators are a few sums."""

from collections.abc import Callable
from typing import Any

import numpy as np
from tensorflow_model_analysis.metrics import calibration
from tensorflow_model_analysis.metrics import mean_regression_error as errors
from tensorflow_model_analysis.metrics import squared_pearson_correlation as pearson

from penstock.components.evaluator.inputs import Extracts, NotInBatchesError
from penstock.components.evaluator.tallies import Added, Tally, inputs_of_key, without_buckets

Columns = tuple[np.ndarray, ...]


def _weighted(labels: np.ndarray, predictions: np.ndarray, weights: np.ndarray) -> Columns:
    return labels * weights, predictions * weights, weights


def _correlation(labels: np.ndarray, predictions: np.ndarray, w: np.ndarray) -> Columns:
    x, y = labels.astype(np.float64), predictions.astype(np.float64)
    return w * x, w * y, w * x**2, w * y**2, w * x * y, w


def _mean_of(error: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> Callable[..., Columns]:
    def columns(labels: np.ndarray, predictions: np.ndarray, weights: np.ndarray) -> Columns:
        with np.errstate(divide="ignore", invalid="ignore"):
            found = error(labels, predictions)
        none = np.isnan(found)
        return np.where(none, 0, found * weights), np.where(none, 0, weights)

    return columns


def _square(difference: np.ndarray) -> np.ndarray:
    return difference.astype(np.float64) ** 2


_WEIGHTED = ("total_weighted_labels", "total_weighted_predictions")
_EXAMPLES = "total_weighted_examples"
_SQUARED = ("total_weighted_squared_labels", "total_weighted_squared_predictions")
_ERROR = ("total_regression_error", "total_example_weights")

# Of each combiner: its accumulator's attributes, and what rows add to them.
_KNOWN: dict[type, tuple[tuple[str, ...], Callable[..., Columns]]] = {
    calibration._WeightedLabelsPredictionsExamplesCombiner: (
        (*_WEIGHTED, _EXAMPLES),
        _weighted,
    ),
    pearson._SquaredPearsonCorrelationCombiner: (
        (*_WEIGHTED, *_SQUARED, "total_weighted_labels_times_predictions", _EXAMPLES),
        _correlation,
    ),
    errors._MeanAbsoluteErrorCombiner: (_ERROR, _mean_of(lambda y, p: np.absolute(y - p))),
    errors._MeanSquaredErrorCombiner: (_ERROR, _mean_of(lambda y, p: _square(y - p))),
    errors._MeanAbsolutePercentageErrorCombiner: (
        _ERROR,
        _mean_of(lambda y, p: np.where(y == 0, np.nan, 100.0 * np.absolute((y - p) / y))),
    ),
    errors._MeanSquaredLogarithmicErrorCombiner: (
        _ERROR,
        _mean_of(lambda y, p: _square(np.log(y + 1) - np.log(p + 1))),
    ),
}  # fmt: skip


class _Totals(Tally):
    """Sums without buckets, which are attributes of the accumulator."""

    def __init__(self, combiner: Any) -> None:
        super().__init__(combiner, inputs_of_key(combiner))
        self._names, self._columns = _KNOWN[type(combiner)]
        if self._columns is _correlation and combiner._key.sub_key is not None:
            raise NotInBatchesError  # it passes over the key's class

    def added(self, extracts: Extracts) -> Added:
        return without_buckets(*self._columns(*self.inputs.pairs(extracts)))

    def accumulated(self, buckets: np.ndarray, sums: np.ndarray) -> Any:
        accumulator = self.combiner.create_accumulator()
        if len(buckets):
            for name, value in zip(self._names, sums[:, 0], strict=True):
                setattr(accumulator, name, float(value))
        return accumulator


# Of each combiner, its tally.
TOTALS: dict[type, Callable[[Any], Tally]] = dict.fromkeys(_KNOWN, _Totals)
