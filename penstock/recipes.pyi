# The names of `penstock.recipes` and the modules that define them.

from .components.plain import from_plain
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
    word_counts,
)
from .pipelines.blocks.run_images import image_classes, train_images
from .pipelines.blocks.run_tables import TableData, train_tables
from .pipelines.blocks.target import Target
from .pipelines.config.code_digest import code_digest
from .pipelines.reporting.model_card import ModelCard
from .schemas import schema_file

__all__ = [
    "CATEGORIES_XF",
    "NUMBERS_XF",
    "EvaluationOptions",
    "ImageConfig",
    "ImageModelOptions",
    "LabelFacts",
    "ModelCard",
    "TableConfig",
    "TableData",
    "TableModelOptions",
    "Target",
    "boolean_numbers",
    "category_ids",
    "category_sizes",
    "class_ids",
    "code_digest",
    "date_parts",
    "dense_column",
    "eval_config",
    "from_plain",
    "image_classes",
    "image_examples",
    "image_gate",
    "image_model",
    "image_splits",
    "label_values",
    "run_root",
    "scaled_numbers",
    "schema_file",
    "table_examples",
    "table_inputs",
    "table_model",
    "target_labels",
    "train_images",
    "train_tables",
    "training_pipeline",
    "word_counts",
]
