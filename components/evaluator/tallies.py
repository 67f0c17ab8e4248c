"""TFMA's combiners over whole batches: sums by slice and bucket, given back as its accumulators.

Only what adds a row is done anew here. Which computations a metric needs, what becomes of their
sums and how metrics derive from one another stays TFMA's.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow_model_analysis.constants import INPUT_KEY
from tensorflow_model_analysis.contrib.aggregates import binary_confusion_matrices as matrices
from tensorflow_model_analysis.metrics import (
    binary_confusion_matrices,
    calibration,
    calibration_histogram,
    example_count,
    mean_regression_error,
    metric_types,
    metric_util,
    multi_class_confusion_matrix_metrics,
    squared_pearson_correlation,
    tf_metric_wrapper,
)
from tensorflow_model_analysis.utils.keras_lib import tf_keras

from penstock.components.errors import DataError
from penstock.components.evaluator.inputs import ByRowError, Extracts, Inputs
from penstock.components.evaluator.sums import KeyedSums

# Buckets int64 [n, c], what to add to them float64 [k, n, c], and which of these [n, c] count.
Added = tuple[np.ndarray, np.ndarray, np.ndarray]


class Tally(ABC):
    """One combiner's sums of all slices.

    Attributes:
        width: Buckets of a slice.
    """

    width = 1

    def __init__(self, combiner: Any) -> None:
        self.combiner = combiner
        self._sums = KeyedSums()

    def add(self, extracts: Extracts, rows: np.ndarray, slices: np.ndarray) -> None:
        """Add a batch.

        Args:
            extracts: TFMA's, of n rows.
            rows: Row numbers int64 [m], for each slice that a row is in.
            slices: Numbers of these slices.

        Raises:
            ByRowError: The batch is for the combiner; nothing was added.
            DataError: No combiner could add it.
        """
        buckets, values, counts = self.added(extracts)
        kept = counts[rows]
        keys = (slices[:, None] * self.width + buckets[rows])[kept]
        self._sums.add(keys, values[:, rows][:, kept])

    def accumulator(self, number: int) -> Any:
        """The combiner's accumulator of a slice."""
        first = number * self.width
        keys, sums = self._sums.between(first, first + self.width)
        return self.accumulated(keys - first, sums)

    @abstractmethod
    def added(self, extracts: Extracts) -> Added:
        """What each row adds to which bucket."""

    @abstractmethod
    def accumulated(self, buckets: np.ndarray, sums: np.ndarray) -> Any:
        """The accumulator of these sums; what is not in `buckets` is 0."""


class _Totals(Tally):
    """Sums without buckets, which are attributes of the accumulator."""

    attributes: tuple[str, ...] = ()

    def accumulated(self, buckets: np.ndarray, sums: np.ndarray) -> Any:
        accumulator = self.combiner.create_accumulator()
        if len(buckets):
            for name, value in zip(self.attributes, sums[:, 0], strict=True):
                setattr(accumulator, name, float(value))
        return accumulator


def _totals(*columns: np.ndarray, counts: np.ndarray | None = None) -> Added:
    buckets = np.zeros(columns[0].shape, np.int64)
    return buckets, np.stack(columns), np.ones_like(buckets, bool) if counts is None else counts


def _of_key(combiner: Any, key: Any) -> Inputs:
    return Inputs.of(
        combiner, model=key.model_name, output=key.output_name, sub_key=key.sub_key
    )


class _Count(Tally):
    def __init__(self, combiner: Any) -> None:
        super().__init__(combiner)
        self._inputs = Inputs.of(
            combiner, model=combiner._model_name, output=combiner._output_name
        )

    def added(self, extracts: Extracts) -> Added:
        return _totals(self._inputs.weights(extracts, len(extracts[INPUT_KEY]))[:, None])

    def accumulated(self, buckets: np.ndarray, sums: np.ndarray) -> float:
        return float(sums.sum())


class _Histogram(Tally):
    def __init__(self, combiner: Any) -> None:
        super().__init__(combiner)
        self._inputs = _of_key(combiner, combiner._key)
        self.width = combiner._num_buckets + 2

    def added(self, extracts: Extracts) -> Added:
        own = self.combiner
        labels, predictions, weights = self._inputs.pairs(extracts)
        if own._fractional_labels:
            _check_probabilities(labels)
        by = (predictions if own._prediction_based_bucketing else labels).astype(np.float64)
        if missing := int(np.isnan(by).any(axis=1).sum()):
            raise DataError(
                f"predictions are NaN in {missing:,} of {len(by):,} rows; expected numbers: train "
                "again with a lower learning rate, or give the model features without NaN"
            )
        index = (by - own._left) / own._range * own._num_buckets + 1
        buckets = np.clip(index, 0, self.width - 1).astype(np.int64)
        added = np.stack([labels * weights, predictions * weights, weights])
        # TFMA leaves out rows without weight where labels may be fractions.
        return buckets, added, (weights != 0) | (not own._fractional_labels)

    def accumulated(self, buckets: np.ndarray, sums: np.ndarray) -> Any:
        columns = (buckets.tolist(), *sums.tolist()) if len(buckets) else ()
        rows = zip(*columns, strict=True)
        return {row[0]: calibration_histogram.Bucket(*row) for row in rows}


def _check_probabilities(labels: np.ndarray) -> None:
    outside = ~((labels >= -1e-6) & (labels <= 1 + 1e-6))  # NaN is outside
    if outside.any():
        raise DataError(
            f"label {labels[outside][0]} in {int(outside.any(axis=1).sum()):,} of "
            f"{len(labels):,} rows; a metric of two classes expects labels within 0..1"
        )


class _Matrices(Tally):
    """A bucket is how many of the sorted thresholds are below a prediction."""

    def __init__(self, combiner: Any) -> None:
        super().__init__(combiner)
        self._inputs = _of_key(combiner, combiner._key)
        own = combiner._binary_confusion_matrices
        self._thresholds = np.array(sorted(set(own._thresholds)), np.float64)
        self.width = len(self._thresholds) + 1
        if (
            not combiner._enable_fractional_labels
            or combiner._example_id_key
            or not _takes_standard_inputs(combiner)
        ):
            raise ByRowError

    def added(self, extracts: Extracts) -> Added:
        labels, predictions, weights = self._inputs.pairs(extracts)
        _check_probabilities(labels)
        buckets = np.searchsorted(self._thresholds, predictions.astype(np.float64))
        buckets[np.isnan(predictions)] = 0
        added = np.stack([labels * weights, (1 - labels) * weights])
        return buckets, added, np.ones_like(buckets, bool)

    def accumulated(self, buckets: np.ndarray, sums: np.ndarray) -> Any:
        by_bucket = np.zeros((2, self.width))
        if len(buckets):
            by_bucket[:, buckets] = sums
        below = by_bucket.cumsum(axis=1)
        above = by_bucket[:, ::-1].cumsum(axis=1)[:, ::-1]
        return {
            threshold: matrices._ThresholdEntry(
                matrices.Matrix(
                    tp=above[0, at + 1].item(), tn=below[1, at].item(),
                    fp=above[1, at + 1].item(), fn=below[0, at].item(),
                ),
                [], [], [], [],
            )
            for at, threshold in enumerate(self._thresholds.tolist())
        }  # fmt: skip


class _Weighted(_Totals):
    attributes = (
        "total_weighted_labels", "total_weighted_predictions", "total_weighted_examples",
    )  # fmt: skip

    def __init__(self, combiner: Any) -> None:
        super().__init__(combiner)
        self._inputs = _of_key(combiner, combiner._key)

    def added(self, extracts: Extracts) -> Added:
        labels, predictions, weights = self._inputs.pairs(extracts)
        return _totals(labels * weights, predictions * weights, weights)


class _Correlation(_Totals):
    attributes = (
        "total_weighted_labels", "total_weighted_predictions", "total_weighted_squared_labels",
        "total_weighted_squared_predictions", "total_weighted_labels_times_predictions",
        "total_weighted_examples",
    )  # fmt: skip

    def __init__(self, combiner: Any) -> None:
        super().__init__(combiner)
        key = combiner._key
        # TFMA passes over the key's class here.
        self._inputs = Inputs.of(combiner, model=key.model_name, output=key.output_name)

    def added(self, extracts: Extracts) -> Added:
        labels, predictions, weights = self._inputs.pairs(extracts)
        x, y = labels.astype(np.float64), predictions.astype(np.float64)
        return _totals(
            weights * x, weights * y, weights * x**2, weights * y**2, weights * x * y, weights
        )


def _absolute(labels: np.ndarray, predictions: np.ndarray) -> np.ndarray:
    return np.absolute(labels - predictions)


def _squared(labels: np.ndarray, predictions: np.ndarray) -> np.ndarray:
    return (labels - predictions).astype(np.float64) ** 2


def _percentage(labels: np.ndarray, predictions: np.ndarray) -> np.ndarray:
    with np.errstate(divide="ignore", invalid="ignore"):
        error = 100.0 * np.absolute((labels - predictions) / labels)
    return np.where(labels == 0, np.nan, error)


def _squared_logarithmic(labels: np.ndarray, predictions: np.ndarray) -> np.ndarray:
    return _squared(np.log(labels + 1), np.log(predictions + 1))


_ERRORS: dict[type, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    mean_regression_error._MeanAbsoluteErrorCombiner: _absolute,
    mean_regression_error._MeanSquaredErrorCombiner: _squared,
    mean_regression_error._MeanAbsolutePercentageErrorCombiner: _percentage,
    mean_regression_error._MeanSquaredLogarithmicErrorCombiner: _squared_logarithmic,
}


class _MeanError(_Totals):
    attributes = ("total_regression_error", "total_example_weights")

    def __init__(self, combiner: Any) -> None:
        super().__init__(combiner)
        self._inputs = _of_key(combiner, combiner._metric_key)

    def added(self, extracts: Extracts) -> Added:
        labels, predictions, weights = self._inputs.pairs(extracts)
        errors = _ERRORS[type(self.combiner)](labels, predictions)
        return _totals(errors * weights, weights, counts=~np.isnan(errors))


class _Classes(Tally):
    """Actual against predicted class; a bucket is (threshold, actual + 1, predicted + 1)."""

    def __init__(self, combiner: Any) -> None:
        super().__init__(combiner)
        key = combiner._key
        self._inputs = Inputs.of(combiner, model=key.model_name, output=key.output_name)
        self._classes = 0
        if not _takes_standard_inputs(combiner):
            raise ByRowError

    def added(self, extracts: Extracts) -> Added:
        labels, predictions, weights = self._inputs.arrays(extracts)
        classes = predictions.shape[1]
        self._classes = self._classes or classes
        actual = labels.argmax(axis=1) if labels.shape[1] > 1 else labels[:, 0].astype(np.int64)
        if classes < 2 or classes != self._classes or actual.min() < -1 or actual.max() > classes:
            raise ByRowError
        thresholds = self.combiner._thresholds
        self.width = len(thresholds) * (classes + 2) * (classes + 1)
        top = predictions.max(axis=1)
        # Once none of the classes is predicted, none is at the thresholds that follow.
        none = np.logical_or.accumulate(top[:, None] <= np.array(thresholds)[None, :], axis=1)
        predicted = np.where(none, -1, predictions.argmax(axis=1)[:, None])
        first = np.arange(len(thresholds)) * (classes + 2)
        buckets = (first + actual[:, None] + 1) * (classes + 1) + predicted + 1
        return buckets, np.broadcast_to(weights[:, None], (1, *buckets.shape)), buckets >= 0

    def accumulated(self, buckets: np.ndarray, sums: np.ndarray) -> Any:
        found = self.combiner.create_accumulator()
        entry = multi_class_confusion_matrix_metrics.MatrixEntryKey
        for bucket, weight in zip(buckets.tolist(), sums.reshape(-1).tolist(), strict=True):
            pair, predicted = divmod(bucket, self._classes + 1)
            at, actual = divmod(pair, self._classes + 2)
            by_threshold = found.setdefault(self.combiner._thresholds[at], {})
            by_threshold[entry(actual - 1, predicted - 1)] = weight
        return found


def _takes_standard_inputs(combiner: Any) -> bool:
    standard = metric_util.to_label_prediction_example_weight
    return combiner._extract_label_prediction_and_weight is standard


class _KerasMeans(Tally):
    """Keras' metrics that are means of a value of each row: the values once, their sums here."""

    def __init__(self, combiner: Any) -> None:
        super().__init__(combiner)
        combiner.setup()
        if len(combiner._output_names) > 1 or combiner._loss_configs[0]:
            raise ByRowError  # what a loss adds is its batch's mean, whatever the rows' weights
        [output] = combiner._output_names
        self._metrics = combiner._metrics[output]
        accumulator = combiner.create_accumulator()
        known = all(map(_value_of, self._metrics))
        if not known or combiner._sub_key_in_config or accumulator._pad:
            raise ByRowError
        self._micro = combiner._aggregation_type and combiner._aggregation_type.micro_average
        self._inputs = Inputs.of(
            combiner, model=combiner._model_name, output=output, sub_key=combiner._sub_key
        )

    def added(self, extracts: Extracts) -> Added:
        take = self._inputs.pairs if self._micro else self._inputs.arrays
        labels, predictions, weights = take(extracts)
        shape = weights.shape if self._micro else (len(weights), 1)
        if self._micro:
            labels, predictions = labels.reshape(-1, 1), predictions.reshape(-1, 1)
        columns = []
        for metric in self._metrics:
            cast = tf.cast(labels, metric.dtype), tf.cast(predictions, metric.dtype)
            values = np.asarray(_value_of(metric)(*cast), np.float64)
            if values.size != weights.size:
                raise ByRowError
            columns.append(values.reshape(shape) * weights.reshape(shape))
        return _totals(*columns, weights.reshape(shape))

    def accumulated(self, buckets: np.ndarray, sums: np.ndarray) -> Any:
        accumulator = self.combiner.create_accumulator()
        if len(buckets):
            *totals, count = sums[:, 0].astype(np.float32)
            for index, total in enumerate(totals):
                accumulator.add_weights(0, index, [total, count])
        return accumulator


def _value_of(metric: Any) -> Callable[..., Any] | None:
    """What a Keras metric is the mean of, given labels and predictions; None where it is not."""
    keras = tf_keras.metrics
    if type(metric) is keras.RootMeanSquaredError:
        return tf.math.squared_difference
    if type(metric).update_state is keras.MeanMetricWrapper.update_state:
        return lambda labels, predictions: metric._fn(labels, predictions, **metric._fn_kwargs)
    return None


_TALLIES: dict[type, type[Tally]] = {
    example_count._ExampleCountCombiner: _Count,
    calibration_histogram._CalibrationHistogramCombiner: _Histogram,
    binary_confusion_matrices._BinaryConfusionMatrixCombiner: _Matrices,
    calibration._WeightedLabelsPredictionsExamplesCombiner: _Weighted,
    squared_pearson_correlation._SquaredPearsonCorrelationCombiner: _Correlation,
    multi_class_confusion_matrix_metrics._MultiClassConfusionMatrixCombiner: _Classes,
    tf_metric_wrapper._CompilableMetricsCombiner: _KerasMeans,
    **dict.fromkeys(_ERRORS, _MeanError),
}


def tally_of(computation: metric_types.MetricComputation) -> Tally | None:
    """What adds whole batches in place of a computation's combiner; None where nothing does."""
    kinds = {type(one) for one in computation.preprocessors or ()}
    tally = _TALLIES.get(type(computation.combiner))
    if tally is None or kinds - {metric_types.StandardMetricInputsPreprocessor}:
        return None
    try:
        return tally(computation.combiner)
    except ByRowError:
        return None
