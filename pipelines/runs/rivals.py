"""Comparison of a model with simple rivals, stored in its ModelRun as `rivals.json`."""

import json
import os
from dataclasses import dataclass

from penstock.components.errors import counted
from penstock.components.files.spool import local_folder
from penstock.components.plain import from_record

RIVALS_NAME = "rivals.json"
CONSTANT, LINEAR, TREES = "constant", "linear", "trees"
_NOISE_ERRORS = 2
# A class counts as missed if it has at least `_MIN_CLASS_ROWS` evaluation rows and the model finds
# less than `_MIN_FOUND_SHARE` of them.
_MIN_CLASS_ROWS, _MIN_FOUND_SHARE = 20, 0.05


@dataclass(frozen=True)
class Rival:
    """Loss of a linear model or of boosted trees, fitted on training rows."""

    name: str
    loss: float
    # Standard error, over the rows, of the difference between this loss and the model's
    error: float
    # Number of training rows that the rival was fitted on, if the model was trained on more
    fitted_rows: int | None = None

    def __str__(self) -> str:
        rows = f" (fitted on {self.fitted_rows:,} rows only)" if self.fitted_rows else ""
        return f"{self.name} {loss_text(self.loss)}{rows}"


@dataclass(frozen=True)
class Beaten:
    """Comparison of a model with the best constant and other models on the same rows."""

    target: str
    # `cross-entropy` or `mean squared error`; lower is better
    metric: str
    model: float
    # Loss of the best constant.
    constant_loss: float
    # The best constant, in words.
    constant: str
    rows: int
    # Name of the transformed label.
    label: str = ""
    # Class names by number; empty for a regression.
    classes: tuple[str, ...] = ()
    # Empty for images, or if no feature is a dense tensor of numbers
    rivals: tuple[Rival, ...] = ()
    # Number of rows of each class, and number of these rows for which the model predicts the class
    class_rows: tuple[int, ...] = ()
    found_rows: tuple[int, ...] = ()
    # Threshold for two classes, if it was chosen on these rows: the least probability of the second
    # class at which the model predicts this class
    threshold: float | None = None

    def beats(self, name: str) -> bool:
        """Returns whether the model's loss is below a rival's; True if there is no such rival."""
        losses = {CONSTANT: self.constant_loss, **{rival.name: rival.loss for rival in self.rivals}}
        return name not in losses or self.model < losses[name]

    def against(self, name: str) -> str:
        """Returns `beside` if the model's and the rival's loss differ by at most 2 standard errors.

        Otherwise returns `ahead of` or `behind`.
        """
        [rival] = [rival for rival in self.rivals if rival.name == name]
        distance = rival.loss - self.model
        if abs(distance) <= _NOISE_ERRORS * rival.error:
            return "beside"
        return "ahead of" if distance > 0 else "behind"

    @property
    def standing(self) -> str:
        found: dict[str, list[str]] = {}
        for rival in self.rivals:
            found.setdefault(self.against(rival.name), []).append(rival.name)
        return ", ".join(f"{where} {' and '.join(names)}" for where, names in found.items())

    @property
    def missed(self) -> str:
        """A sentence about the class with the lowest recall; empty if no class is missed."""
        counts = zip(self.classes, self.found_rows, self.class_rows, strict=False)
        counted = [(n / rows, name, n, rows) for name, n, rows in counts if rows >= _MIN_CLASS_ROWS]
        if not counted or min(counted)[0] >= _MIN_FOUND_SHARE:
            return ""
        share, name, found, rows = min(counted)
        return (
            f"the model finds {share:.1%} of {name!r} ({found:,} of {rows:,} rows); go by its "
            "probabilities, set evaluation.decide.recall, or train with model.class_weights=true"
        )

    @property
    def decision(self) -> str:
        """A sentence about the chosen threshold and its result; empty without a threshold."""
        if self.threshold is None:
            return ""
        hits, alarms = self.found_rows[1], self.class_rows[0] - self.found_rows[0]
        return (
            f"{self.target}: {self.classes[1]!r} from a probability of {self.threshold:.4g} on; "
            f"finds {hits:,} of {self.class_rows[1]:,} with {counted(alarms, 'false alarm')}"
        )

    def __str__(self) -> str:
        rivals = "".join(f"; {rival}" for rival in self.rivals)
        return (
            f"{self.target}: {self.metric} {loss_text(self.model)}, "
            f"{loss_text(self.constant_loss)} by always saying {self.constant}{rivals}"
        )


def loss_text(loss: float) -> str:
    """Formats a loss with four digits: 450,800 instead of 4.508e+05."""
    return f"{float(f'{loss:.4g}'):,.10g}"


def read_rivals(model_run: str | None) -> tuple[Beaten, ...]:
    """Reads the comparisons of a ModelRun, one for each target; empty without the file."""
    path = os.path.join(local_folder(model_run) if model_run else "", RIVALS_NAME)
    if not os.path.isfile(path):
        return ()
    with open(path, encoding="utf-8") as file:
        return tuple(from_record(Beaten, one) for one in json.load(file))
