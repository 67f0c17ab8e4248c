"""Chooses, on evaluation rows, the lowest probability at which the second class is predicted."""

from collections.abc import Sequence

import numpy as np

from penstock.components.errors import UsageError
from penstock.pipelines.blocks.config import DecideOptions
from penstock.pipelines.blocks.target import Target


def require_two_classes(options: DecideOptions, targets: Sequence[Target]) -> None:
    """Raises UsageError if a decision threshold is requested for a target that is not binary."""
    for target in targets if options.is_set else ():
        if target.task != "binary":
            raise UsageError(
                f"evaluation.decide chooses between two classes; target {target.name!r} is of the "
                f"task {target.task!r}: leave it out"
            )


def decision_threshold(
    labels: np.ndarray, probabilities: np.ndarray, options: DecideOptions
) -> float | None:
    """Returns the lowest probability at which the second class is predicted.

    The result is None if no option is set, or if no row is of the second class.

    Candidates lie half-way between neighbouring probabilities of the rows. With `options.recall`,
    the result is the highest candidate that reaches this recall. Otherwise it is the candidate with
    the least cost: a false alarm costs 1, a miss `options.miss_cost`.

    Args:
        labels: Class numbers, 0 or 1, [rows].
        probabilities: Probabilities of class 1, [rows].
        options: The recall, or the cost of a miss.
    """
    positives = int(np.sum(labels == 1))
    if not options.is_set or not positives:
        return None
    order = np.argsort(-probabilities, kind="stable")
    falling = probabilities[order]
    hits = np.cumsum(labels[order] == 1)
    # Rows with equal probability get the same prediction, so a threshold cannot lie between them,
    # only after the last of them.
    places = np.flatnonzero(np.append(falling[1:] < falling[:-1], True))
    if options.recall is not None:
        place = places[np.argmax(hits[places] >= options.recall * positives)]
    else:
        alarms = places + 1 - hits[places]
        missed = positives - hits[places]
        place = places[np.argmin(alarms + float(options.miss_cost or 0) * missed)]
    # The threshold is half-way between the probabilities of the chosen row and the next (0 after
    # the last row), because a probability may differ in its last digit when served.
    return float(falling[place : place + 2].sum()) / 2
