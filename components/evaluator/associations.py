"""Relations between columns and the target in a sample of rows.

Input: one value per row, None where it is missing. Output: plain values for the report.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

# An error analysis has about 1,000 rows; with many more groups, a group would have fewer than 100
# rows.
_GROUPS = 8
MISSING, OTHER = "missing", "other"

Value = float | str | None


def groups(
    values: Sequence[Value], labels: np.ndarray, predictions: np.ndarray
) -> list[dict[str, Any]]:
    """Groups rows with similar values; returns mean label and prediction per group.

    In a column with at most `_GROUPS` distinct values, each value has a group of its own. In other
    columns, numbers are grouped by quantiles; of texts, only the most frequent have groups of their
    own, and all others form the group `other`. Rows without a value form the group `missing`.
    `labels` and `predictions` are float64 [rows]. A group has a `name` (a value, the two ends of a
    range of numbers, `other` or `missing`), `rows`, `label` and `prediction`.
    """
    names = _names(values)
    return [
        {
            "name": name,
            "rows": int(members.sum()),
            "label": float(labels[members].mean()),
            "prediction": float(predictions[members].mean()),
        }
        for name in sorted(set(names), key=_position)
        for members in [np.array([one == name for one in names])]
    ]


def _names(values: Sequence[Value]) -> list[Any]:
    known = [value for value in values if value is not None]
    counts = Counter(known)
    if len(counts) <= _GROUPS:
        return [MISSING if value is None else value for value in values]
    if any(isinstance(value, str) for value in known):
        kept = {value for value, _ in counts.most_common(_GROUPS - 1)}
        return [MISSING if v is None else v if v in kept else OTHER for v in values]
    numbers = np.array(known, np.float64)
    cuts = np.unique(np.quantile(numbers, np.linspace(0, 1, _GROUPS + 1)[1:-1]))
    at = np.searchsorted(cuts, numbers, side="left")  # a value equal to a cut ends its group
    found = {i: (float(numbers[at == i].min()), float(numbers[at == i].max())) for i in set(at)}
    places = iter(at)
    return [MISSING if value is None else found[next(places)] for value in values]


def _position(name: Any) -> tuple[int, Any]:
    """Returns a sort key: ranges and numbers by size, then texts, then `other`, `missing`."""
    if isinstance(name, str):
        return (1 + (name == OTHER) + 2 * (name == MISSING), name)
    return (0, name if isinstance(name, tuple) else (name,))


def correlations(columns: Mapping[str, Sequence[Value]]) -> dict[str, dict[str, float]]:
    """Returns Pearson's correlation of every two columns of numbers, over rows that have both.

    Columns of texts, and columns whose numbers are all equal, are left out.
    """
    numbers = {
        name: [np.nan if value is None else value for value in values]
        for name, values in columns.items()
        if not any(isinstance(value, str) for value in values)
    }
    found = pd.DataFrame(numbers, dtype=np.float64).corr(min_periods=2)
    by_name = {name: row.dropna().to_dict() for name, row in found.iterrows()}
    return {name: row for name, row in by_name.items() if name in row}
