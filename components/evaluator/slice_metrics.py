"""Adds slices of rows without a feature, and removes metrics of slices that mean nothing.

TFMA leaves a row out of the slices of a feature that the row lacks, and returns an area under a
curve of 0 if all rows have the same class.
"""

import math
from collections.abc import Callable, Mapping

EXAMPLE_COUNT = "example_count"
OVERALL = "overall"
MISSING = " missing"  # suffix for the slice of rows without a feature

_AREAS = ("auc", "AUC")
# Means over rows: the metric of the rows in no slice follows from all rows and the slices.
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
    metrics: Metrics, positives: Callable[[str], tuple[float, float] | None]
) -> dict[str, dict[str, float]]:
    """Returns the finite metrics, without the AUC of slices whose rows all have one class.

    `positives` returns positive rows and all rows of a slice if it has a plot; it is called only if
    an area is 0, which may also be a true value.
    """
    kept: dict[str, dict[str, float]] = {}
    for where, values in metrics.items():
        kept[where] = {name: value for name, value in values.items() if math.isfinite(value)}
        for name in [name for name in values if _metric(name) in _AREAS and values[name] == 0]:
            target = name[: -len(_metric(name))]
            recall = values.get(f"{target}recall", 0.0)
            # With several targets the counts of the plots do not name the target.
            counted = None if target else positives(where)
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
    """Returns slices such as `payment_type missing` of the rows that lack a sliced feature.

    `features` has the features of each slice but `OVERALL`; each must have one value per row. The
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
        if rows < 0.5:  # no such rows, or a feature with several values per row
            continue
        name = ", ".join(by) + MISSING
        found[name] = {EXAMPLE_COUNT: rows}
        for metric in (name for name in overall if _metric(name) in _MEANS):
            if all(metric in values for values in slices):
                elsewhere = sum(values[metric] * values[EXAMPLE_COUNT] for values in slices)
                # Rounded to nine digits, the precision of float sums over so many rows.
                found[name][metric] = round((overall[metric] * total - elsewhere) / rows, 9) + 0.0
    return found
