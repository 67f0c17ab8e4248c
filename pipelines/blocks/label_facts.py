"""Computes mean, deviation and class counts from batches of labels."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from penstock.components.errors import DataError
from penstock.pipelines.blocks.target import Target


@dataclass(frozen=True)
class LabelFacts:
    """Facts of one target's labels.

    Attributes:
        rows: Number of labels.
        mean: Mean of the labels, or of the class numbers.
        deviation: Standard deviation of the labels, or of the class numbers.
        class_counts: Number of rows by class number; empty for a regression.
    """

    rows: int
    mean: float
    deviation: float
    class_counts: tuple[int, ...] = ()

    @property
    def class_weights(self) -> list[float]:
        """Loss weights by which all classes count equally, 1 on average; 0 without rows."""
        present = sum(count > 0 for count in self.class_counts)
        return [self.rows / (present * count) if count else 0.0 for count in self.class_counts]

    @property
    def constant_loss(self) -> float:
        """Loss of the best constant: entropy of the class shares, or variance of the labels."""
        if not self.class_counts:
            return self.deviation**2
        shares = [count / self.rows for count in self.class_counts if count]
        return -sum(share * math.log(share) for share in shares)


def label_facts(labels: Iterable[Any], target: Target) -> LabelFacts:
    """Returns the facts of batches, of any shape, of one target's labels.

    Raises:
        DataError: A label is not finite, or no number of a class.
    """
    counts = np.zeros(len(target.classes), np.int64)
    rows, mean, squares = 0, 0.0, 0.0
    for batch in labels:
        values = np.asarray(batch).reshape(-1)
        if target.classes:
            counts += _class_counts(values, target)
        elif not np.isfinite(values).all():
            raise DataError(f"target {target.name!r}: a label is not finite; correct the data")
        if len(values):
            values = values.astype(np.float64)
            apart, before = values.mean() - mean, rows
            rows += len(values)
            squares += ((values - values.mean()) ** 2).sum()
            squares += apart**2 * before * len(values) / rows
            mean += apart * len(values) / rows
    deviation = math.sqrt(squares / rows) if rows else 0.0
    return LabelFacts(rows, mean, deviation, tuple(counts.tolist()))


def _class_counts(values: np.ndarray, target: Target) -> np.ndarray:
    outside = ~((values >= 0) & (values < len(target.classes)))  # also NaN
    if outside.any():
        raise DataError(
            f"target {target.name!r}: {outside.sum()} of {len(values)} labels are not among its "
            f"classes ({', '.join(target.classes)}); add the class, or correct the data"
        )
    return np.bincount(values.astype(np.int64), minlength=len(target.classes))
