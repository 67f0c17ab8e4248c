# The names of `penstock.recipes` and the modules that define them.

from .pipelines.blocks import preprocessing, resolvers
from .pipelines.blocks.config import (
    EvaluationOptions,
    ImageConfig,
    ImageModelOptions,
    TableConfig,
    TableModelOptions,
)
from .pipelines.blocks.evaluation import eval_config
from .pipelines.blocks.facts import ModelFacts
from .pipelines.blocks.models import image_model, table_model
from .pipelines.blocks.nodes import image_examples, table_examples
from .pipelines.blocks.pipeline import (
    gate_options,
    pipeline_of,
    push_destination,
    training_pipeline,
)
from .pipelines.blocks.run_images import train_images
from .pipelines.blocks.run_tables import train_tables
from .pipelines.blocks.target import Target
from .pipelines.blocks.training_options import training_options
from .pipelines.config.code_digest import code_digest
from .pipelines.reporting.model_card import ModelCard
from .schemas import schema_file

__all__ = [
    "EvaluationOptions",
    "ImageConfig",
    "ImageModelOptions",
    "ModelCard",
    "ModelFacts",
    "TableConfig",
    "TableModelOptions",
    "Target",
    "code_digest",
    "eval_config",
    "gate_options",
    "image_examples",
    "image_model",
    "pipeline_of",
    "preprocessing",
    "push_destination",
    "resolvers",
    "schema_file",
    "table_examples",
    "table_model",
    "train_images",
    "train_tables",
    "training_options",
    "training_pipeline",
]
