"""First nodes of a pipeline: readers of tables and images, and the image gate."""

import os
from dataclasses import replace

from tfx.dsl.components.base.base_node import BaseNode
from tfx.proto import example_gen_pb2

from penstock.components import image_features
from penstock.components.example_gen.component import ShardedExampleGen
from penstock.components.example_gen.options import SplitOptions
from penstock.components.example_gen.spans import has_span, split_span_address
from penstock.components.gates.image_gate import ImageGate
from penstock.pipelines.blocks.config import ImageConfig, TableConfig


def table_examples(config: TableConfig) -> ShardedExampleGen:
    """Reads `config.data`, see `TableConfig`, by `config.schema` if there is one."""
    folder, pattern = config.data, "*"
    if has_span(folder):
        folder, pattern = split_span_address(folder)
    elif "://" not in folder and not os.path.isdir(folder):
        folder, pattern = os.path.split(folder)
    split = example_gen_pb2.Input.Split(name="data", pattern=pattern)
    return ShardedExampleGen(
        folder or ".",
        input_config=example_gen_pb2.Input(splits=[split]),
        output_config=_splits(config.group) if config.group else None,
        source=replace(config.source, schema_file=config.schema),
        ingest=config.ingest,
    )


def image_examples(config: ImageConfig) -> ShardedExampleGen:
    """Reads `config.data`; see `image_splits`."""
    return ShardedExampleGen(
        config.data, output_config=image_splits(), source=config.source, ingest=config.ingest
    )


def image_splits() -> example_gen_pb2.Output:
    """Returns splits that equal images share, so that none is both trained on and evaluated."""
    return _splits(image_features.ENCODED)


def _splits(feature: str) -> example_gen_pb2.Output:
    """Two train rows to one eval row; rows with equal values of a feature share their split."""
    splits = [
        example_gen_pb2.SplitConfig.Split(name=split.name, hash_buckets=split.hash_buckets)
        for split in SplitOptions.splits
    ]
    return example_gen_pb2.Output(
        split_config=example_gen_pb2.SplitConfig(splits=splits, partition_feature_name=feature)
    )


def image_gate(config: ImageConfig, example_gen: BaseNode) -> BaseNode:
    """verdict: String; stops the run where the images are unfit, by `config.checks`."""
    return ImageGate(examples=example_gen.outputs["examples"], options=config.checks)
