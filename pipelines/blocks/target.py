"""The target of a model: a column of the data, the kind of task, and its classes."""

import re
from dataclasses import dataclass

from penstock.components.errors import UsageError
from penstock.components.trainer.served_columns import column_name

TASKS = ("binary", "classes", "regression")
_SCOPE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_/]*")


@dataclass(frozen=True)
class Target:
    """One thing that a model predicts.

    Attributes:
        name: The raw feature that the label is made from; serving does without it.
        task: `binary`, `classes` or `regression`.
        classes: The classes in words, by number; of two classes the second is the positive one.
        label: Name of the transformed label; by default the served name and `_xf`.

    Raises:
        UsageError: The classes do not go with the task.
    """

    name: str
    task: str
    classes: tuple[str, ...] = ()
    label: str = ""

    def __post_init__(self) -> None:
        if self.task not in TASKS:
            raise UsageError(f"task must be one of {', '.join(TASKS)}, got {self.task!r}")
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
        """Numbers that the model gives for it: one a class, but one for two classes."""
        return len(self.classes) if self.task == "classes" else 1


def transformed_name(name: str) -> str:
    """The transformed label's name, by that of the raw feature."""
    # Keras' name of an output, and so of a scope of TensorFlow.
    return f"{name if _SCOPE.fullmatch(name) else column_name(name)}_xf"
