"""The least that a model must do, as a training leaves it in its ModelRun: `baseline.json`."""

import json
import os
from dataclasses import dataclass

from penstock.components.files.spool import local_folder
from penstock.components.plain import from_record

BASELINE_NAME = "baseline.json"


@dataclass(frozen=True)
class Beaten:
    """A model beside the best constant, on the same rows.

    Attributes:
        target: What is predicted.
        metric: `cross-entropy` or `mean squared error`; less is better.
        model: The model's.
        baseline: The best constant's.
        constant: That constant in words.
        rows: Rows that were looked at.
        label: The transformed label's name.
        classes: The classes in words, by number; empty of a quantity.
    """

    target: str
    metric: str
    model: float
    baseline: float
    constant: str
    rows: int
    label: str = ""
    classes: tuple[str, ...] = ()

    @property
    def is_beaten(self) -> bool:
        """Whether the model is the better one."""
        return self.model < self.baseline

    def __str__(self) -> str:
        return (
            f"{self.target}: {self.metric} {self.model:.4g}, "
            f"{self.baseline:.4g} by always saying {self.constant}"
        )


def read_baseline(model_run: str | None) -> tuple[Beaten, ...]:
    """The comparison in the ModelRun at `model_run`, a target each; empty where there is none."""
    path = os.path.join(local_folder(model_run) if model_run else "", BASELINE_NAME)
    if not os.path.isfile(path):
        return ()
    with open(path, encoding="utf-8") as file:
        return tuple(from_record(Beaten, one) for one in json.load(file))
