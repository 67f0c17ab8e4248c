"""Random augmentation of training images by Keras layers, inside the model.

Input and output: images [batch, height, width, channels] with values 0..255.
"""

from collections.abc import Iterator
from typing import Any

import keras

from penstock.components.trainer.images.augmentation_options import AugmentOptions

_RANGE = (0, 255)
# Augmentation is computed in float32 under any precision policy, because 16 bits are too coarse for
# pixel positions.
_DTYPE = "float32"


class Augmentation(keras.layers.Layer):
    """Layer that augments images in training and otherwise returns them unchanged.

    Some of Keras' layers, such as RandomHue, would draw random numbers in serving, too, and a
    SavedModel cannot contain the state of their generators.

    Input and output: float32 [batch, height, width, channels], 0..255.

    Args:
        options: Limits of the random changes.
        seed: Seed of the random numbers; None uses Keras' global seed.
        channels: 3 or 1; gray images have no saturation or hue to change.
    """

    def __init__(
        self, options: AugmentOptions, *, seed: int | None = None, channels: int = 3
    ) -> None:
        super().__init__(name="augmentation", dtype=_DTYPE)
        self.changes = list(_layers(options, channels, {"seed": seed, "dtype": _DTYPE}))

    def build(self, input_shape: tuple[int | None, ...]) -> None:
        for change in self.changes:
            change.build(input_shape)

    def call(self, images: Any, training: bool | None = None) -> Any:
        if training:
            for change in self.changes:
                images = change(images, training=True)
        return images

    def compute_output_shape(self, input_shape: tuple[int | None, ...]) -> tuple[int | None, ...]:
        return input_shape


def _layers(options: AugmentOptions, channels: int, how: dict[str, Any]) -> Iterator[keras.Layer]:
    layers = keras.layers
    edges = {"fill_mode": "nearest", **how}
    if options.flip_horizontal:
        yield layers.RandomFlip("horizontal", **how)
    if options.flip_vertical:
        yield layers.RandomFlip("vertical", **how)
    if options.rotate_degrees:
        yield layers.RandomRotation(options.rotate_degrees / 360, **edges)
    if options.shift:
        yield layers.RandomTranslation(options.shift, options.shift, **edges)
    if options.zoom:
        yield layers.RandomZoom(options.zoom, **edges)
    if options.brightness:
        yield layers.RandomBrightness(options.brightness, _RANGE, **how)
    if options.contrast:
        yield layers.RandomContrast(options.contrast, _RANGE, **how)
    if options.saturation and channels == 3:
        # Factors: 0.5 changes nothing, 0 makes gray, 1 gives the strongest colours. The layer clips
        # its results to 0..1, so the pixels must be within 0..1, too.
        half = options.saturation / 2
        yield layers.Rescaling(1 / 255)
        yield layers.RandomSaturation((0.5 - half, 0.5 + half), (0, 1), **how)
        yield layers.Rescaling(255)
    if options.hue and channels == 3:
        yield layers.RandomHue(options.hue, _RANGE, **how)
