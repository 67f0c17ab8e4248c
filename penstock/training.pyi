# The names of `penstock.training` and the modules that define them.

from .components import image_features
from .components.packing.options import ImageColumn
from .components.readers.torch_rows import TorchRows
from .components.tfrecord.feature_spec import feature_spec
from .components.trainer.checkpoints import resume_dir
from .components.trainer.export import TransformGraph, export_model
from .components.trainer.images.applications import ApplicationBase, check_application
from .components.trainer.images.augmentation import Augmentation
from .components.trainer.images.augmentation_options import AugmentOptions
from .components.trainer.input.images import IMAGE, LabelFn
from .components.trainer.input.input import Input
from .components.trainer.input.options import ImageInputOptions, InputOptions
from .components.trainer.input.passes import InputStart
from .components.trainer.interrupt import TrainingInterruptedError, WorkerLostError
from .components.trainer.loop import train
from .components.trainer.model_setup import warm_started
from .components.trainer.options import EarlyStop, TrainOptions
from .components.trainer.serving import Served, decode_features, serve_columns, serve_images
from .components.trainer.workers import join_workers
from .pipelines.blocks.config import TuneOptions
from .pipelines.blocks.tuning import tuner_fn

__all__ = [
    "IMAGE",
    "ApplicationBase",
    "AugmentOptions",
    "Augmentation",
    "EarlyStop",
    "ImageColumn",
    "ImageInputOptions",
    "Input",
    "InputOptions",
    "InputStart",
    "LabelFn",
    "Served",
    "TorchRows",
    "TrainOptions",
    "TrainingInterruptedError",
    "TransformGraph",
    "TuneOptions",
    "WorkerLostError",
    "check_application",
    "decode_features",
    "export_model",
    "feature_spec",
    "image_features",
    "join_workers",
    "resume_dir",
    "serve_columns",
    "serve_images",
    "train",
    "tuner_fn",
    "warm_started",
]
