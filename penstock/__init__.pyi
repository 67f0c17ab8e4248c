# The public face: each name and the module it comes from. `__init__.py` loads them from here when
# they are asked for; type checkers and `code_digest` read this file too.

# The commands as functions.
from ._verbs import compile, ingest, init, inspect, report, run

# Training on images.
from .components import image_features
from .components.doctor.verify import verify
from .components.engine.options import EngineOptions, local_beam_args

# Errors: each a single line for a person.
from .components.errors import DataError, PenstockError, UsageError

# TFX nodes, and what a pipeline needs beside them.
from .components.evaluator.component import BatchEvaluator
from .components.example_gen.component import ShardedExampleGen
from .components.example_gen.driver import ContentDriver

# Options of ingest, packing and gates.
from .components.example_gen.options import IngestOptions
from .components.example_gen.spans import LatestSpansStrategy

# Sources: how each kind of outside data is read.
from .components.example_gen.spark_writer import write_tfrecords
from .components.example_gen.split_options import Split, SplitOptions
from .components.gates.baseline import (
    LatestBlessedOfOtherDataStrategy,
    LatestBlessedStatisticsStrategy,
    LatestOtherBlessedModelStrategy,
)
from .components.gates.curated_schema import CuratedSchema
from .components.gates.gate import ValidationGate
from .components.gates.image_checks import ImageRules
from .components.gates.image_gate import ImageGate
from .components.gates.kserve import KServePush
from .components.gates.kserve_options import KServeOptions
from .components.gates.pusher import Pusher
from .components.gates.serving_check import ServingCheck
from .components.packing.component import Pack
from .components.packing.options import ImageColumn, PackOptions
from .components.packing.pack import pack
from .components.plain import from_plain
from .components.readers.export import export_shards
from .components.readers.rows import Rows
from .components.sources.avro.options import AvroOptions
from .components.sources.images.options import ImageOptions
from .components.sources.lines.json.options import JsonLinesOptions
from .components.sources.lines.text.options import TextOptions
from .components.sources.options import SourceOptions
from .components.sources.spark.source import SparkOptions
from .components.sources.sql.options import SqlOptions
from .components.sources.tfrecords.options import TFRecordOptions
from .components.sources.tfrecords.tfds import TFDSOptions
from .components.sources.whole_files.options import BinaryOptions

# Training: input, loop, export.
from .components.tfrecord.feature_spec import feature_spec
from .components.tfrecord.sharding import ShardOptions
from .components.trainer.base_model import warm_started
from .components.trainer.checkpoints import resume_dir
from .components.trainer.export import TransformGraph, export
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

# Building blocks of pipelines.
from .pipelines.blocks.config import (
    EvaluationOptions,
    ImageConfig,
    ImageModelOptions,
    TableConfig,
    TableModelOptions,
)
from .pipelines.blocks.evaluation import eval_config
from .pipelines.blocks.label_facts import LabelFacts
from .pipelines.blocks.models import image_model, table_model
from .pipelines.blocks.nodes import image_examples, image_gate, image_splits, table_examples
from .pipelines.blocks.pipeline import run_root, training_pipeline
from .pipelines.blocks.preprocessing import (
    CATEGORIES_XF,
    NUMBERS_XF,
    boolean_numbers,
    category_ids,
    category_sizes,
    class_ids,
    date_parts,
    dense_column,
    label_values,
    scaled_numbers,
    table_inputs,
    target_labels,
)
from .pipelines.blocks.run_images import image_classes, train_images
from .pipelines.blocks.run_tables import TableData, train_tables
from .pipelines.blocks.target import Target
from .pipelines.config.code_digest import code_digest

# Kubeflow.
from .pipelines.kubeflow.placement import Placement, read_placement

# A pushed model's predictions.
from .pipelines.prediction.predict import predict
from .pipelines.reporting.model_card import ModelCard
from .schemas import schema_file

__version__: str
__all__ = [
    "CATEGORIES_XF",
    "IMAGE",
    "NUMBERS_XF",
    "ApplicationBase",
    "AugmentOptions",
    "Augmentation",
    "AvroOptions",
    "BatchEvaluator",
    "BinaryOptions",
    "ContentDriver",
    "CuratedSchema",
    "DataError",
    "EarlyStop",
    "EngineOptions",
    "EvaluationOptions",
    "ImageColumn",
    "ImageConfig",
    "ImageGate",
    "ImageInputOptions",
    "ImageModelOptions",
    "ImageOptions",
    "ImageRules",
    "IngestOptions",
    "InputFacts",
    "InputOptions",
    "InputStart",
    "JsonLinesOptions",
    "KServeOptions",
    "KServePush",
    "LabelFacts",
    "LabelFn",
    "LatestBlessedOfOtherDataStrategy",
    "LatestBlessedStatisticsStrategy",
    "LatestOtherBlessedModelStrategy",
    "LatestSpansStrategy",
    "ModelCard",
    "Pack",
    "PackOptions",
    "PenstockError",
    "Placement",
    "Pusher",
    "Rows",
    "Served",
    "ServingCheck",
    "ShardOptions",
    "ShardedExampleGen",
    "SourceOptions",
    "SparkOptions",
    "Split",
    "SplitOptions",
    "SqlOptions",
    "TFDSOptions",
    "TFRecordOptions",
    "TableConfig",
    "TableData",
    "TableModelOptions",
    "Target",
    "TextOptions",
    "TrackOptions",
    "TrainOptions",
    "TransformGraph",
    "UsageError",
    "ValidationGate",
    "augment_in_input",
    "boolean_numbers",
    "category_ids",
    "category_sizes",
    "check_application",
    "class_ids",
    "code_digest",
    "compile",
    "date_parts",
    "decode_features",
    "dense_column",
    "eval_config",
    "eval_image_input_fn",
    "eval_input_fn",
    "export",
    "export_shards",
    "feature_spec",
    "from_plain",
    "image_classes",
    "image_examples",
    "image_features",
    "image_gate",
    "image_input_facts",
    "image_model",
    "image_splits",
    "ingest",
    "init",
    "input_facts",
    "inspect",
    "join_workers",
    "label_values",
    "local_beam_args",
    "pack",
    "packed_eval_input_fn",
    "packed_input_facts",
    "packed_train_input_fn",
    "predict",
    "read_placement",
    "report",
    "resume_dir",
    "run",
    "run_root",
    "scaled_numbers",
    "schema_file",
    "serve_columns",
    "serve_images",
    "steps_per_epoch",
    "stored_images",
    "table_examples",
    "table_inputs",
    "table_model",
    "target_labels",
    "train",
    "train_image_input_fn",
    "train_images",
    "train_input_fn",
    "train_tables",
    "training_pipeline",
    "verify",
    "warm_started",
    "write_tfrecords",
]
