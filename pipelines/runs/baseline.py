"""Comparison of a model with the best constant, stored in its ModelRun as `baseline.json`."""

import json
import os
from dataclasses import dataclass

from penstock.components.files.spool import local_folder
from penstock.components.plain import from_record

BASELINE_NAME = "baseline.json"


@dataclass(frozen=True)
class Beaten:
    """Comparison of a model with the best constant by `metric` (less is better)."""

    target: str
    metric: str
    model: float
    baseline: float
    constant: str
    rows: int
    label: str = ""  # its name after the Transform
    classes: tuple[str, ...] = ()  # names by number; empty for a regression

    @property
    def is_beaten(self) -> bool:
        """Whether the model is better than the constant."""
        return self.model < self.baseline

    def __str__(self) -> str:
        return (
            f"{self.target}: {self.metric} {self.model:.4g}, "
            f"{self.baseline:.4g} by always saying {self.constant}"
        )


def read_baseline(model_run: str | None) -> tuple[Beaten, ...]:
    """Reads the comparisons of a ModelRun, one for each target; empty without any."""
    path = os.path.join(local_folder(model_run) if model_run else "", BASELINE_NAME)
    if not os.path.isfile(path):
        return ()
    with open(path, encoding="utf-8") as file:
        return tuple(from_record(Beaten, one) for one in json.load(file))
