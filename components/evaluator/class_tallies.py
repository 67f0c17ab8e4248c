"""Tallies for several classes, Keras' metrics, means and correlation; `tally_of` chooses one."""

import math
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow_model_analysis.metrics import (
    calibration,
    metric_types,
    multi_class_confusion_matrix_metrics,
    tf_metric_wrapper,
)
from tensorflow_model_analysis.metrics import mean_regression_error as errors
from tensorflow_model_analysis.metrics import squared_pearson_correlation as pearson
from tensorflow_model_analysis.utils.keras_lib import tf_keras

from penstock.components.batches.fallback import NotInBatchesError
from penstock.components.evaluator.inputs import Extracts, Inputs
from penstock.components.evaluator.tallies import (
    BINARY,
    Added,
    Tally,
    check_extracts,
    without_buckets,
)


class _Classes(Tally):
    """Counts by actual and predicted class; bucket: (threshold, actual + 1, predicted + 1)."""

    def __init__(self, combiner: Any) -> None:
        super().__init__(combiner)
        check_extracts(combiner)

    def added(self, extracts: Extracts) -> Added:
        labels, predictions, weights = self.inputs.arrays(extracts)
        classes, thresholds = predictions.shape[1], np.array(self.combiner._thresholds)
        width = len(thresholds) * (classes + 2) * (classes + 1)
        actual = labels.argmax(axis=1) if labels.shape[1] > 1 else labels[:, 0].astype(np.int64)
        known = self.sums.width in (1, width)  # the width is 1 until rows are added
        if classes < 2 or not known or actual.min() < -1 or actual.max() > classes:
            raise NotInBatchesError
        self.sums.width = width
        # As in TFMA, a row without a predicted class at one threshold has none at later thresholds.
        none = np.logical_or.accumulate(predictions.max(axis=1)[:, None] <= thresholds, axis=1)
        predicted = np.where(none, -1, predictions.argmax(axis=1)[:, None])
        first = np.arange(len(thresholds)) * (classes + 2)
        buckets = (first + actual[:, None] + 1) * (classes + 1) + predicted + 1
        return buckets, np.broadcast_to(weights[:, None], (1, *buckets.shape)), buckets >= 0

    def accumulated(self, buckets: np.ndarray, sums: np.ndarray) -> Any:
        found = self.combiner.create_accumulator()
        entry = multi_class_confusion_matrix_metrics.MatrixEntryKey
        # The integer square root of (classes + 2) * (classes + 1) is classes + 1.
        classes = math.isqrt(self.sums.width // len(self.combiner._thresholds)) - 1
        for bucket, weight in zip(buckets.tolist(), sums.reshape(-1).tolist(), strict=True):
            pair, predicted = divmod(bucket, classes + 1)
            at, actual = divmod(pair, classes + 2)
            by_threshold = found.setdefault(self.combiner._thresholds[at], {})
            by_threshold[entry(actual - 1, predicted - 1)] = weight
        return found


class _KerasMeans(Tally):
    """Keras' metrics that average one value per row; Keras computes the value."""

    def __init__(self, combiner: Any) -> None:
        combiner.setup()
        super().__init__(combiner)
        self._outputs = [
            (Inputs.of(combiner, name), [_value_of(metric) for metric in combiner._metrics[name]])
            for name in combiner._output_names
        ]
        if (
            any(None in functions for _, functions in self._outputs)
            # A loss yields one unweighted mean per batch instead of a value per row.
            or any(combiner._loss_configs)
            or combiner._sub_key_in_config
            or combiner._aggregation_type
            or combiner.create_accumulator()._pad
        ):
            raise NotInBatchesError

    def added(self, extracts: Extracts) -> Added:
        columns: list[np.ndarray] = []
        for inputs, functions in self._outputs:
            labels, predictions, weights = inputs.arrays(extracts)
            values = [np.asarray(of(labels, predictions), np.float64) for of in functions]
            if any(value.size != weights.size for value in values):
                raise NotInBatchesError
            columns += [value.reshape(-1, 1) * weights[:, None] for value in values]
            columns.append(weights[:, None])
        return without_buckets(*columns)

    def accumulated(self, buckets: np.ndarray, sums: np.ndarray) -> Any:
        accumulator = self.combiner.create_accumulator()
        if len(buckets):
            totals = iter(sums[:, 0].astype(np.float32))
            for output, (_, functions) in enumerate(self._outputs):
                *of_output, count = (next(totals) for _ in range(len(functions) + 1))
                for metric, total in enumerate(of_output):
                    accumulator.add_weights(output, metric, [total, count])
        return accumulator


def _value_of(metric: Any) -> Any:
    """Returns the function of labels and predictions that the metric averages, or None."""
    keras = tf_keras.metrics
    if type(metric) is keras.RootMeanSquaredError:
        function, options = tf.math.squared_difference, {}
    elif type(metric).update_state is keras.MeanMetricWrapper.update_state:
        function, options = metric._fn, metric._fn_kwargs
    else:
        return None
    cast = lambda values: tf.cast(values, metric.dtype)  # noqa: E731
    return lambda labels, predictions: function(cast(labels), cast(predictions), **options)


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

# For each combiner: the attributes of its accumulator, and a function that returns, for each of
# them, the column to sum.
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
    """Sums that need no buckets; each is an attribute of TFMA's accumulator."""

    def __init__(self, combiner: Any) -> None:
        super().__init__(combiner)
        self._names, self._columns = _KNOWN[type(combiner)]

    def added(self, extracts: Extracts) -> Added:
        return without_buckets(*self._columns(*self.inputs.pairs(extracts)))

    def accumulated(self, buckets: np.ndarray, sums: np.ndarray) -> Any:
        accumulator = self.combiner.create_accumulator()
        if len(buckets):
            for name, value in zip(self._names, sums[:, 0], strict=True):
                setattr(accumulator, name, float(value))
        return accumulator


_TALLIES: dict[type, Callable[[Any], Tally]] = {
    **BINARY,
    **dict.fromkeys(_KNOWN, _Totals),
    multi_class_confusion_matrix_metrics._MultiClassConfusionMatrixCombiner: _Classes,
    tf_metric_wrapper._CompilableMetricsCombiner: _KerasMeans,
}


def tally_of(computation: metric_types.MetricComputation) -> Tally:
    """Returns the tally that adds whole batches in place of a computation's combiner."""
    kinds = {type(one) for one in computation.preprocessors or ()}
    tally = _TALLIES.get(type(computation.combiner))
    if tally is not None and not kinds - {metric_types.StandardMetricInputsPreprocessor}:
        with suppress(NotInBatchesError):
            return tally(computation.combiner)
    names = ", ".join(sorted({key.name for key in computation.keys}))
    raise NotInBatchesError(f"metrics not known in batches: {names}")
