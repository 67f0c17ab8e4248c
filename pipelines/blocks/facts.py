"""Facts from which a model is built: targets, shapes of inputs, and statistics of labels."""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from penstock.components.errors import DataError
from penstock.pipelines.blocks.target import Target

if TYPE_CHECKING:
    import keras


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
        """Loss weights that make all classes count equally, with a mean of 1 over the rows.

        An empty class has weight 0.
        """
        present = sum(count > 0 for count in self.class_counts)
        return [self.rows / (present * count) if count else 0.0 for count in self.class_counts]

    @property
    def constant_loss(self) -> float:
        """Loss of the best constant prediction: entropy of class shares or variance of labels."""
        if not self.class_counts:
            return self.deviation**2
        shares = [count / self.rows for count in self.class_counts if count]
        return -sum(share * math.log(share) for share in shares)


def label_facts(labels: Iterable[Any], target: Target) -> LabelFacts:
    """Returns the facts of one target's labels, from batches of any shape.

    Raises:
        DataError: A label is not finite, or is not the number of a class.
    """
    counts = np.zeros(len(target.classes), np.int64)
    # The sums are of differences from the first label, because in sums of large labels, rounding
    # errors would hide the deviation.
    rows, first, total, squares = 0, 0.0, 0.0, 0.0
    for batch in labels:
        values = np.asarray(batch).reshape(-1)
        if target.classes:
            counts += _class_counts(values, target)
        elif not np.isfinite(values).all():
            raise DataError(f"target {target.name!r}: a label is not finite; correct the data")
        if not rows and len(values):
            first = float(values[0])
        apart = values.astype(np.float64) - first
        rows += len(apart)
        total += apart.sum()
        squares += (apart**2).sum()
    mean = total / max(1, rows)
    deviation = math.sqrt(max(0.0, squares / max(1, rows) - mean**2))
    return LabelFacts(rows, first + mean, deviation, tuple(counts.tolist()))


def _class_counts(values: np.ndarray, target: Target) -> np.ndarray:
    outside = ~((values >= 0) & (values < len(target.classes)))  # also True for NaN
    if outside.any():
        raise DataError(
            f"target {target.name!r}: {outside.sum()} of {len(values)} labels are not among its "
            f"classes ({', '.join(target.classes)}); add the class, or correct the data"
        )
    return np.bincount(values.astype(np.int64), minlength=len(target.classes))


@dataclass(frozen=True)
class ModelFacts:
    """Facts of the data that a model is trained on, in the same form for tables and images.

    Attributes:
        targets: Targets of the model.
        inputs: Shape of each input by name, without the batch dimension: `{"numbers_xf": (12,)}`
            for a table, `{"image": (height, width, channels)}` for images.
        seed: Seed of random layers; None uses a random seed.
    """

    targets: tuple[Target, ...]
    inputs: Mapping[str, tuple[int, ...]]
    seed: int | None = None
    read_labels: Callable[[], dict[str, LabelFacts]] = field(default=dict, repr=False)

    @cached_property
    def labels(self) -> dict[str, LabelFacts]:
        """Facts of each target's training labels, by the transformed label's name.

        They are computed from all training rows on first access.

        Raises:
            DataError: A label is not one of its target's classes, or not finite.
        """
        return self.read_labels()

    def width(self, name: str) -> int:
        """Returns the number of columns of an input; 0 if it does not exist."""
        return self.inputs[name][-1] if name in self.inputs else 0


BuildModel: TypeAlias = Callable[[ModelFacts, Any], "keras.Model"]
"""Function from the facts and the config's `model` to a compiled model."""
