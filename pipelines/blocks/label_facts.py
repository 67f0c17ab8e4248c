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


class LabelTally:
    def __init__(self, target: Target) -> None:
        self._target = target
        self._counts = np.zeros(len(target.classes), np.int64)
        self._rows, self._mean, self._squares = 0, 0.0, 0.0

    def add(self, labels: Any) -> None:
        """Adds a batch of any shape; DataError if a label is not finite or no class number."""
        values = np.asarray(labels).reshape(-1)
        target = self._target
        if not np.isfinite(values).all():
            raise DataError(f"target {target.name!r}: a label is not finite; correct the data")
        if target.classes:
            outside = values[(values < 0) | (values >= len(target.classes))]
            if len(outside):
                raise DataError(
                    f"target {target.name!r}: {len(outside)} of {len(values)} labels are not among "
                    f"its classes ({', '.join(target.classes)}); add the class, or correct the data"
                )
            self._counts += np.bincount(values.astype(np.int64), minlength=len(self._counts))
        self._merge(values.astype(np.float64))

    def facts(self) -> LabelFacts:
        deviation = math.sqrt(self._squares / self._rows) if self._rows else 0.0
        return LabelFacts(self._rows, self._mean, deviation, tuple(self._counts.tolist()))

    def _merge(self, values: np.ndarray) -> None:
        if not len(values):
            return
        rows = self._rows + len(values)
        apart = values.mean() - self._mean
        self._squares += ((values - values.mean()) ** 2).sum()
        self._squares += apart**2 * self._rows * len(values) / rows
        self._mean += apart * len(values) / rows
        self._rows = rows


def label_facts(labels: Iterable[Any], target: Target) -> LabelFacts:
    """Returns the facts of batches of one target's labels; errors are those of `LabelTally.add`."""
    tally = LabelTally(target)
    for batch in labels:
        tally.add(batch)
    return tally.facts()
