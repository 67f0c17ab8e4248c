"""Networks of `keras.applications` as the base of an image model, for transfer learning.

Input: float images [batch, height, width, 3] with values 0..255. Output: one vector per image.
The layer scales the pixels as the network's family requires, so callers cannot forget to do so.
"""

import inspect
from collections.abc import Callable
from typing import Any

import keras

from penstock.components.errors import UsageError, short_error


def check_application(name: str) -> None:
    """If there is no such network, raises UsageError with the names of all networks."""
    if name not in (known := _applications()):
        raise UsageError(f"application must be one of {', '.join(sorted(known))}; got {name!r}")


class ApplicationBase(keras.layers.Layer):
    """Scales pixels as a network's family requires, and applies the network without its top.

    Input: float [batch, height, width, 3], 0..255. Output: float [batch, features], the mean over
    all positions of the image.

    Args:
        application: Name of the network, such as `MobileNetV2`.
        height: Height in pixels; each network has a minimum.
        width: Width in pixels.
        weights: File of weights of the network without its top, in the format of
            `Model.save_weights`; None starts with random weights.
        trainable: Whether training changes the network; if not, batch normalization is frozen, too.

    Raises:
        UsageError: There is no such network, the size is too small, or the file does not fit.
    """

    def __init__(
        self, application: str, *, height: int, width: int, weights: str | None, trainable: bool
    ) -> None:
        super().__init__(name=application.lower())
        check_application(application)
        function = _applications()[application]
        family = function.__module__.rpartition(".")[2]
        self._scale = getattr(keras.applications, family).preprocess_input
        self.network = _network(function, (height, width, 3), weights)
        # While frozen, batch normalization uses the means and variances of the original training.
        self.network.trainable = trainable

    def call(self, images: Any, training: bool | None = None) -> Any:
        return self.network(self._scale(images), training=training and self.network.trainable)

    def compute_output_shape(self, input_shape: tuple[int | None, ...]) -> tuple[int | None, ...]:
        return (input_shape[0], *self.network.output_shape[1:])


def _applications() -> dict[str, Callable[..., keras.Model]]:
    return {
        name: function
        for name, function in vars(keras.applications).items()
        if inspect.isfunction(function)
    }


def _network(
    function: Callable[..., keras.Model], shape: tuple[int, int, int], weights: str | None
) -> keras.Model:
    name = function.__name__
    try:
        network = function(weights=None, include_top=False, input_shape=shape, pooling="avg")
    except ValueError as error:
        raise UsageError(f"{name} at {shape[0]}x{shape[1]}: {short_error(error)}") from error
    if weights is not None:
        try:
            network.load_weights(weights)
        except (ValueError, OSError, KeyError) as error:
            raise UsageError(
                f"weights {weights}: not those of {name} without its top ({short_error(error)})"
            ) from error
    return network
