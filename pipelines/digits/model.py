"""The classifier: `image_model` with the options of the config.

The Trainer runs `run_fn`, which turns shards of images into a SavedModel for encoded images.
"""

import keras
from tfx.components.trainer.fn_args_utils import FnArgs

from penstock.recipes import ImageModelOptions, ModelFacts, image_model, train_images


def build_model(facts: ModelFacts, options: ImageModelOptions) -> keras.Model:
    """Build and compile the model according to `config.Config.model`."""
    return image_model(facts, options)


def run_fn(fn_args: FnArgs) -> None:
    """Train, compare the model with the best constant prediction, and export it."""
    train_images(fn_args, build_model)
