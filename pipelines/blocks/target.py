"""The target of a model: a column of the data, the kind of task, and its classes."""

import re
from dataclasses import dataclass

from penstock.components.errors import UsageError
from penstock.components.trainer.served_columns import column_name

# Keras' name of the loss of each task.
_LOSSES = {
    "binary": "binary_crossentropy",
    "classes": "sparse_categorical_crossentropy",
    "regression": "mean_squared_error",
}
_SCOPE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_/]*")


@dataclass(frozen=True)
class Target:
    """One quantity or class that a model predicts.

    Attributes:
        name: Raw feature with the label; requests to the served model do not need it.
        task: `binary`, `classes` or `regression`.
        classes: Names of the classes, by number; with two classes, the second is the positive one.
        label: Name of the transformed label; by default `transformed_name(name)`.

    Raises:
        UsageError: The task is unknown, or the number of classes does not fit it.
    """

    name: str
    task: str
    classes: tuple[str, ...] = ()
    label: str = ""

    def __post_init__(self) -> None:
        if self.task not in _LOSSES:
            raise UsageError(f"task must be one of {', '.join(_LOSSES)}, got {self.task!r}")
        least, most = {"binary": (2, 2), "classes": (2, None), "regression": (0, 0)}[self.task]
        count = len(self.classes)
        if count < least or (most is not None and count > most):
            expected = {"binary": "two classes", "classes": "at least two classes"}
            raise UsageError(
                f"target {self.name!r}: a task {self.task!r} has "
                f"{expected.get(self.task, 'no classes')}, got {count}"
            )
        if not self.label:
            object.__setattr__(self, "label", transformed_name(self.name))

    @property
    def outputs(self) -> int:
        """Number of model outputs for this target: one per class of a task `classes`, else 1."""
        return len(self.classes) if self.task == "classes" else 1

    @property
    def loss(self) -> str:
        return _LOSSES[self.task]


def transformed_name(name: str) -> str:
    """Returns the default name of the label that is made from a raw feature."""
    # Keras uses the name for an output, so it must be valid as the name of a TensorFlow scope.
    return f"{name if _SCOPE.fullmatch(name) else column_name(name)}_xf"
