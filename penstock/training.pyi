# The names of `penstock.training` and the modules that define them.

from .components import image_features
from .components.tfrecord.feature_spec import feature_spec
from .components.trainer.base_model import warm_started
from .components.trainer.checkpoints import resume_dir
from .components.trainer.export import TransformGraph, export_model
from .components.trainer.images.applications import ApplicationBase, check_application
from .components.trainer.images.augmentation import Augmentation, augment_in_input
from .components.trainer.images.augmentation_options import AugmentOptions
from .components.trainer.images.serving import decode_features, serve_images
from .components.trainer.input.facts import input_facts
from .components.trainer.input.files import steps_per_epoch
from .components.trainer.input.image_options import ImageInputOptions
from .components.trainer.input.images import (
    IMAGE,
    LabelFn,
    eval_image_input_fn,
    image_input_facts,
    stored_images,
    train_image_input_fn,
)
from .components.trainer.input.options import InputOptions
from .components.trainer.input.packed import (
    packed_eval_input_fn,
    packed_input_facts,
    packed_train_input_fn,
)
from .components.trainer.input.rows import eval_input_fn, train_input_fn
from .components.trainer.input.start import InputStart
from .components.trainer.loop import train
from .components.trainer.options import EarlyStop, TrainOptions
from .components.trainer.serving import Served, serve_columns
from .components.trainer.trackers.options import TrackOptions
from .components.trainer.utilisation.record import InputFacts
from .components.trainer.workers import join_workers

__all__ = [
    "IMAGE",
    "ApplicationBase",
    "AugmentOptions",
    "Augmentation",
    "EarlyStop",
    "ImageInputOptions",
    "InputFacts",
    "InputOptions",
    "InputStart",
    "LabelFn",
    "Served",
    "TrackOptions",
    "TrainOptions",
    "TransformGraph",
    "augment_in_input",
    "check_application",
    "decode_features",
    "eval_image_input_fn",
    "eval_input_fn",
    "export_model",
    "feature_spec",
    "image_features",
    "image_input_facts",
    "input_facts",
    "join_workers",
    "packed_eval_input_fn",
    "packed_input_facts",
    "packed_train_input_fn",
    "resume_dir",
    "serve_columns",
    "serve_images",
    "steps_per_epoch",
    "stored_images",
    "train",
    "train_image_input_fn",
    "train_input_fn",
    "warm_started",
]
