"""What a model is built from: its targets, the shapes of its inputs and the facts of its labels."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeAlias

import keras

from penstock.pipelines.blocks.label_facts import LabelFacts
from penstock.pipelines.blocks.target import Target


@dataclass(frozen=True)
class ModelFacts:
    """Facts of the data that a model is trained on, the same for tables and images.

    Attributes:
        targets: Targets of the model.
        inputs: Shape of each input by name, without the rows: `{"numbers_xf": (12,)}` of a table,
            `{"image": (height, width, channels)}` of images.
        seed: Seed of random layers; None draws one.
    """

    targets: tuple[Target, ...]
    inputs: Mapping[str, tuple[int, ...]]
    seed: int | None = None
    read_labels: Callable[[], dict[str, LabelFacts]] = field(default=dict, repr=False)

    @cached_property
    def labels(self) -> dict[str, LabelFacts]:
        """Facts of each target's training labels, by the transformed label's name.

        They are read from all training rows when they are first asked for.

        Raises:
            DataError: A label is not one of its target's classes, or not finite.
        """
        return self.read_labels()

    def width(self, name: str) -> int:
        """Returns the number of columns of an input; 0 if it does not exist."""
        return self.inputs[name][-1] if name in self.inputs else 0


BuildModel: TypeAlias = Callable[[ModelFacts, Any], keras.Model]
"""Function from the facts and the config's `model` to a compiled model."""
