"""Networks of `keras.applications` as the base of an image model: transfer learning.

Flows in: float images [batch, height, width, 3] with values 0..255. Flows out: a vector an
image. Each family scales pixels in its own way, which is done here and so cannot be forgotten.
"""

import inspect
import os
from collections.abc import Callable
from typing import Any

import keras

from penstock.components.errors import UsageError


def application_names() -> tuple[str, ...]:
    """All networks there are: `MobileNetV2`, `InceptionResNetV2`, ..."""
    return tuple(sorted(_applications()))


def check_application(name: str) -> None:
    """Refuse a name that is not in `application_names()`.

    Raises:
        UsageError: Lists them.
    """
    if name not in _applications():
        raise UsageError(
            f"application must be one of {', '.join(application_names())}; got {name!r}"
        )


class ApplicationBase(keras.layers.Layer):
    """A network without its top, after the scaling of pixels that its family was trained with.

    Input: float [batch, height, width, 3], 0..255. Output: float [batch, its features], the mean
    over all places.

    Args:
        application: One of `application_names()`.
        height: In pixels; each network has a least one.
        width: In pixels.
        weights: A file of weights of the network without its top, as `Model.save_weights` and
            the Keras team write them; None begins with random ones.
        trainable: Whether training changes it; else its batch normalisation is frozen too.

    Raises:
        UsageError: There is no such network, it takes no such size, or the file does not fit.
    """

    def __init__(
        self, application: str, *, height: int, width: int, weights: str | None, trainable: bool
    ) -> None:
        super().__init__(name=application.lower())
        check_application(application)
        function = _applications()[application]
        self._scale = _scaling(function)
        self.network = _network(function, (height, width, 3), weights)
        # Frozen, its batch normalisation works with the means of its own training.
        self.network.trainable = trainable

    def call(self, images: Any, training: bool | None = None) -> Any:
        """See the class."""
        return self.network(self._scale(images), training=training and self.network.trainable)

    def compute_output_shape(self, input_shape: tuple[int | None, ...]) -> tuple[int | None, ...]:
        """Of a batch of images to that of their vectors."""
        return (input_shape[0], *self.network.output_shape[1:])


def _applications() -> dict[str, Callable[..., keras.Model]]:
    return {
        name: function
        for name, function in vars(keras.applications).items()
        if inspect.isfunction(function)
    }


def _scaling(function: Callable[..., keras.Model]) -> Callable[[Any], Any]:
    """The family's `preprocess_input`: it stands in the module that the network is made in."""
    family = function.__module__.rpartition(".")[2]
    return getattr(keras.applications, family).preprocess_input


def _network(
    function: Callable[..., keras.Model], shape: tuple[int, int, int], weights: str | None
) -> keras.Model:
    name = function.__name__
    if weights is not None and not os.path.isfile(weights):
        raise UsageError(
            f"weights {weights}: no such file; give one of {name} without its top, or none"
        )
    try:
        network = function(weights=None, include_top=False, input_shape=shape, pooling="avg")
    except ValueError as error:
        raise UsageError(f"{name} at {shape[0]}x{shape[1]}: {_line(error)}") from error
    if weights is not None:
        try:
            network.load_weights(weights)
        except (ValueError, OSError, KeyError) as error:
            raise UsageError(
                f"weights {weights}: not those of {name} without its top ({_line(error)})"
            ) from error
    return network


def _line(error: Exception) -> str:
    return " ".join(str(error).split())[:200]
