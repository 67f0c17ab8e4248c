"""Rows of an evaluation that are in no slice, and metrics of slices that mean nothing.

TFMA leaves a row out of the slices of a feature that it does not have, and gives an area under a
curve as 0 where all rows are of one class.
"""

import math
from collections.abc import Callable, Mapping

EXAMPLE_COUNT = "example_count"
OVERALL = "overall"
MISSING = " missing"  # what the slice of rows without a feature is called, after the feature

_AREAS = ("auc", "AUC")
# Means over the rows: what the rows in no slice have follows from all rows and the slices.
_MEANS = {
    "accuracy",
    "binary_accuracy",
    "categorical_accuracy",
    "sparse_categorical_accuracy",
    "binary_crossentropy",
    "categorical_crossentropy",
    "sparse_categorical_crossentropy",
    "mean_absolute_error",
    "mean_squared_error",
}

Metrics = Mapping[str, Mapping[str, float]]


def meaningful(
    metrics: Metrics, positives: Callable[[], Mapping[str, tuple[float, float]]]
) -> dict[str, dict[str, float]]:
    """The metrics without those that are not a number, or an area of one class.

    `positives` gives positive rows and all rows of each slice that has plots; called only where an
    area is 0, which it may rightly be.
    """
    known: Mapping[str, tuple[float, float]] | None = None
    kept: dict[str, dict[str, float]] = {}
    for where, values in metrics.items():
        kept[where] = {name: value for name, value in values.items() if not math.isnan(value)}
        for name in [name for name in values if _metric(name) in _AREAS and values[name] == 0]:
            known = positives() if known is None else known
            target = name[: -len(_metric(name))]
            recall = values.get(f"{target}recall", 0.0)
            # The plots' counts are of the only target.
            counted = None if target else known.get(where)
            if _has_one_class(recall, values.get(EXAMPLE_COUNT), counted):
                del kept[where][name]
    return kept


def _metric(name: str) -> str:
    return name.rpartition("/")[2]


def _has_one_class(recall: float, rows: float | None, counted: tuple[float, float] | None) -> bool:
    if counted is not None:
        return counted[0] in (0, counted[1])
    return math.isnan(recall) or rows == 1


def rows_in_no_slice(
    metrics: Metrics, features: Mapping[str, tuple[str, ...]]
) -> dict[str, dict[str, float]]:
    """The rows that lack a feature that others are sliced by, as slices `payment_type missing`.

    `features` has the features of all slices but `OVERALL`, each with one value in a row. The
    result has their number of examples and the metrics that are means over rows.
    """
    overall = metrics.get(OVERALL, {})
    total = overall.get(EXAMPLE_COUNT)
    found: dict[str, dict[str, float]] = {}
    for by in dict.fromkeys(features.values()):
        slices = [metrics[f] for f, columns in features.items() if columns == by and f in metrics]
        if total is None or any(EXAMPLE_COUNT not in values for values in slices):
            continue
        rows = total - sum(values[EXAMPLE_COUNT] for values in slices)
        if rows < 0.5:  # none, or features of several values
            continue
        name = ", ".join(by) + MISSING
        found[name] = {EXAMPLE_COUNT: rows}
        for metric in (name for name in overall if _metric(name) in _MEANS):
            if all(metric in values for values in slices):
                elsewhere = sum(values[metric] * values[EXAMPLE_COUNT] for values in slices)
                # To nine digits, which is what float sums of so many rows keep.
                found[name][metric] = round((overall[metric] * total - elsewhere) / rows, 9) + 0.0
    return found
