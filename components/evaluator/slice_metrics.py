"""Derives slices of missing values and intervals from metrics; drops meaningless metrics.

TFMA leaves a row out of the slices of a feature that the row lacks. For the area under a curve, it
returns 0 if all rows have the same class.

Intervals are computed from the results of the evaluation, without a pass over the rows. Shares have
Wilson's score interval (Wilson 1927; Brown, Cai and DasGupta 2001 compare it with the Wald
interval). Areas under the ROC curve have the interval of Hanley and McNeil (1982). Mean absolute
and squared errors have an interval computed from their standard errors.
"""

import math
from collections.abc import Callable, Mapping, Sequence

EXAMPLE_COUNT = "example_count"
OVERALL = "overall"
MISSING = " missing"  # suffix for the slice of rows without a feature

_AREAS = ("auc", "AUC")
_SHARES = ("accuracy", "binary_accuracy", "categorical_accuracy", "sparse_categorical_accuracy")
# Metrics that are means over rows: the mean over the rows in no slice is computed from the overall
# mean and the means of the slices.
_MEANS = {
    *_SHARES,
    "binary_crossentropy",
    "categorical_crossentropy",
    "sparse_categorical_crossentropy",
    "mean_absolute_error",
    "mean_squared_error",
}

Metrics = Mapping[str, Mapping[str, float]]
Interval = tuple[float, float]

_Z = 1.96  # 95 %


def slice_name(key: Sequence[tuple[str, object]]) -> str:
    """Formats TFMA's key of a slice: `payment_type=Cash, trip_start_hour=3`, or `overall`."""
    return ", ".join(f"{feature}={value}" for feature, value in key) or OVERALL


def meaningful(
    metrics: Metrics, positives: Callable[[str], tuple[float, float] | None]
) -> dict[str, dict[str, float]]:
    """Returns the finite metrics, without the AUC of slices whose rows all have one class.

    For a slice that has a plot, `positives` returns the numbers of positive rows and of all rows.
    `positives` is called only if an area is 0, because 0 may also be the correct area.
    """
    kept: dict[str, dict[str, float]] = {}
    for where, values in metrics.items():
        kept[where] = {name: value for name, value in values.items() if math.isfinite(value)}
        for name in [name for name in values if _metric(name) in _AREAS and values[name] == 0]:
            target = name[: -len(_metric(name))]
            recall = values.get(f"{target}recall", 0.0)
            # With several targets, `positives` does not say to which target the counts belong.
            counted = None if target else positives(where)
            has_one_class = (
                math.isnan(recall) or values.get(EXAMPLE_COUNT) == 1
                if counted is None
                else counted[0] in (0, counted[1])
            )
            if has_one_class:
                del kept[where][name]
    return kept


def _metric(name: str) -> str:
    return name.rpartition("/")[2]


def rows_in_no_slice(
    metrics: Metrics, features: Mapping[str, tuple[str, ...]]
) -> dict[str, dict[str, float]]:
    """Returns slices of the rows that lack a sliced feature, such as `payment_type missing`.

    `features` has the features of each slice; no feature may have several values per row. The
    returned slices have their number of examples and those metrics that are means over rows.
    """
    overall = metrics.get(OVERALL, {})
    total = overall.get(EXAMPLE_COUNT)
    found: dict[str, dict[str, float]] = {}
    for by in dict.fromkeys(features.values()):
        slices = [metrics[f] for f, columns in features.items() if columns == by and f in metrics]
        if total is None or any(EXAMPLE_COUNT not in values for values in slices):
            continue
        rows = total - sum(values[EXAMPLE_COUNT] for values in slices)
        if rows < 0.5:  # there are no such rows, or a feature has several values per row
            continue
        name = ", ".join(by) + MISSING
        found[name] = {EXAMPLE_COUNT: rows}
        for metric in (name for name in overall if _metric(name) in _MEANS):
            if all(metric in values for values in slices):
                elsewhere = sum(values[metric] * values[EXAMPLE_COUNT] for values in slices)
                # The value is rounded to nine digits, because sums of floats over many rows are no
                # more precise.
                found[name][metric] = round((overall[metric] * total - elsewhere) / rows, 9) + 0.0
    return found


def intervals(metrics: Mapping[str, float], squares_error: float = 0.0) -> dict[str, Interval]:
    """Returns the 95 % intervals of a slice's metrics, computed from unweighted counts.

    `squares_error` is the standard error of the mean squared error, 0 if unknown.
    """
    rows = metrics.get(EXAMPLE_COUNT, 0.0)
    if rows < 1 or rows != round(rows):
        return {}
    found = {name: wilson(metrics[name], rows) for name in _SHARES if name in metrics}
    if counts := binary_counts(metrics):
        (true_no, alarms), (missed, hits) = counts
        if hits + alarms:
            found["precision"] = wilson(metrics["precision"], hits + alarms)
        if hits + missed:
            found["recall"] = wilson(metrics["recall"], hits + missed)
        for name in metrics.keys() & {"auc", "AUC"}:
            if hits + missed and true_no + alarms:
                found[name] = hanley_mcneil(metrics[name], hits + missed, true_no + alarms)
    error = metrics.get("mean_absolute_error")
    squared = metrics.get("mean_squared_error", metrics.get("root_mean_squared_error", 0.0) ** 2)
    if error is not None and squared:
        half = _Z * math.sqrt(max(0.0, squared - error**2) / rows)
        found["mean_absolute_error"] = (max(0.0, error - half), error + half)
    if squared and squares_error:
        ends = (max(0.0, squared - _Z * squares_error), squared + _Z * squares_error)
        found["mean_squared_error"] = ends
        found["root_mean_squared_error"] = (math.sqrt(ends[0]), math.sqrt(ends[1]))
    return found


def wilson(share: float, count: float) -> Interval:
    """Wilson score interval of a share observed in `count` examples, within 0..1."""
    spread = _Z * math.sqrt(share * (1 - share) / count + _Z**2 / (4 * count**2))
    middle, scale = share + _Z**2 / (2 * count), 1 + _Z**2 / count
    return max(0.0, (middle - spread) / scale), min(1.0, (middle + spread) / scale)


def hanley_mcneil(area: float, positives: float, negatives: float) -> Interval:
    """Hanley-McNeil interval of an area under the ROC curve, within 0..1."""
    of_two_positives, of_two_negatives = area / (2 - area), 2 * area**2 / (1 + area)
    variance = (
        area * (1 - area)
        + (positives - 1) * (of_two_positives - area**2)
        + (negatives - 1) * (of_two_negatives - area**2)
    ) / (positives * negatives)
    half = _Z * math.sqrt(max(0.0, variance))
    return max(0.0, area - half), min(1.0, area + half)


def binary_counts(metrics: Mapping[str, float]) -> tuple[Interval, Interval] | None:
    """Returns the binary confusion matrix, computed from accuracy, precision and recall.

    With N examples, P of them positive: TP = recall * P, FP = TP * (1 / precision - 1), and
    accuracy * N = TP + (N - P - FP).
    Hence P = N * (1 - accuracy) / (1 + recall / precision - 2 * recall).

    Returns:
        (true negatives, false positives), (false negatives, true positives); None if the
        metrics are missing or the counts are not whole numbers (weighted examples).
    """
    try:
        total, accuracy = metrics[EXAMPLE_COUNT], metrics["binary_accuracy"]
        precision, recall = metrics["precision"], metrics["recall"]
        positive = total * (1 - accuracy) / (1 + recall / precision - 2 * recall)
    except (KeyError, ZeroDivisionError):
        return None
    hit = recall * positive
    alarm = hit * (1 / precision - 1)
    counts = (total - positive - alarm, alarm, positive - hit, hit)
    # Weighted examples, or metrics at different thresholds, give fractional counts.
    if not all(count > -0.5 and abs(count - round(count)) < 0.05 for count in counts):
        return None
    true_no, alarms, missed, hits = (float(round(count)) for count in counts)
    return (true_no, alarms), (missed, hits)
