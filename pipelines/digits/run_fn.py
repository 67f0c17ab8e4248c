"""The Trainer's `run_fn`: shards of images in, a SavedModel that takes encoded images out."""

from functools import partial

from tfx.components.trainer.fn_args_utils import FnArgs

from penstock.pipelines.digits.model import build_model
from penstock.recipes import train_images


def run_fn(fn_args: FnArgs) -> None:
    """Train, require the model to be better than a constant, and export."""
    train_images(fn_args, partial(build_model, fn_args.custom_config["model"]))
