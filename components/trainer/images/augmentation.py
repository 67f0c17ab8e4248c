"""Random augmentation of training images by Keras layers, inside the model.

Input and output: images [batch, height, width, channels] with values 0..255.
"""

from typing import Any

import keras

from penstock.components.trainer.images.augmentation_options import AugmentOptions

_RANGE = (0, 255)
# Whatever the precision policy is: 16 bits are too coarse for pixel positions.
_DTYPE = "float32"


class Augmentation(keras.layers.Layer):
    """Layer that augments images in training and returns them unchanged otherwise.

    Keras' own layers draw random numbers when served, too, and a SavedModel cannot hold these.

    Input and output: float32 [batch, height, width, channels], 0..255.

    Args:
        options: Limits of the random changes.
        seed: Seed of the random numbers; None uses Keras' global seed.
        channels: 3 or 1; gray images have no saturation and no hue to change.
    """

    def __init__(
        self, options: AugmentOptions, *, seed: int | None = None, channels: int = 3
    ) -> None:
        super().__init__(name="augmentation", dtype=_DTYPE)
        self.changes = [*_moves(options, seed), *_colours(options, seed, channels)]

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


def _moves(options: AugmentOptions, seed: int | None) -> list[keras.Layer]:
    layers = keras.layers
    how = {"fill_mode": "nearest", "seed": seed, "dtype": _DTYPE}
    built: list[keras.Layer] = []
    if options.flip_horizontal:
        built.append(layers.RandomFlip("horizontal", seed=seed, dtype=_DTYPE))
    if options.flip_vertical:
        built.append(layers.RandomFlip("vertical", seed=seed, dtype=_DTYPE))
    if options.rotate_degrees:
        built.append(layers.RandomRotation(options.rotate_degrees / 360, **how))
    if options.shift:
        built.append(layers.RandomTranslation(options.shift, options.shift, **how))
    if options.zoom:
        built.append(layers.RandomZoom(options.zoom, **how))
    return built


def _colours(options: AugmentOptions, seed: int | None, channels: int) -> list[keras.Layer]:
    layers = keras.layers
    how = {"seed": seed, "dtype": _DTYPE}
    built: list[keras.Layer] = []
    if options.brightness:
        built.append(layers.RandomBrightness(options.brightness, _RANGE, **how))
    if options.contrast:
        built.append(layers.RandomContrast(options.contrast, _RANGE, **how))
    if channels == 3 and options.saturation:
        # Factors: 0.5 changes nothing, 0 makes gray, 1 gives the strongest colours. The layer clips
        # its results to 0..1, so the pixels must be within 0..1, too.
        half = options.saturation / 2
        change = layers.RandomSaturation((0.5 - half, 0.5 + half), (0, 1), **how)
        most = _RANGE[1]
        built += [layers.Rescaling(1 / most), change, layers.Rescaling(most)]
    if channels == 3 and options.hue:
        built.append(layers.RandomHue(options.hue, _RANGE, **how))
    return built
