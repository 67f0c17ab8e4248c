"""The classifier: `image_model` with the options of the config."""

from collections.abc import Mapping
from typing import Any

import keras

from penstock.recipes import ImageModelOptions, LabelFacts, Target, from_plain, image_model
from penstock.training import AugmentOptions, ImageInputOptions


def build_model(
    options: Mapping[str, Any],
    targets: tuple[Target, ...],
    images: ImageInputOptions,
    augment: AugmentOptions,
    labels: Mapping[str, LabelFacts],
) -> keras.Model:
    """Build and compile the model; `options` are the fields of `ImageModelOptions`."""
    network = from_plain(ImageModelOptions, options)
    return image_model(targets, network, images=images, augment=augment, labels=labels)
