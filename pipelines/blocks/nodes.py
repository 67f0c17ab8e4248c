"""Nodes of pipelines: readers of tables and images, the image gate, resolvers."""

import os
from dataclasses import replace

from tfx.dsl.components.base.base_node import BaseNode
from tfx.dsl.components.common.resolver import Resolver, ResolverStrategy
from tfx.proto import example_gen_pb2, range_config_pb2
from tfx.types import BaseChannel, Channel
from tfx.types.standard_artifacts import Examples, ExampleStatistics, Model, ModelBlessing

from penstock.components import image_features
from penstock.components.example_gen.component import ShardedExampleGen
from penstock.components.example_gen.options import SplitOptions
from penstock.components.example_gen.spans import LatestSpansStrategy, has_span, split_span_address
from penstock.components.gates.baseline import (
    LatestBlessedOfOtherDataStrategy,
    LatestBlessedStatisticsStrategy,
    LatestOtherBlessedModelStrategy,
)
from penstock.components.gates.image_gate import ImageGate
from penstock.pipelines.blocks.config import ImageConfig, TableConfig


def table_examples(config: TableConfig) -> ShardedExampleGen:
    """Returns the ExampleGen of `config.data`, with the types of `config.schema` if it is set."""
    folder, pattern = config.data, "*"
    if has_span(folder):
        folder, pattern = split_span_address(folder)
    elif "://" not in folder and not os.path.isdir(folder):
        folder, pattern = os.path.split(folder)
    split = example_gen_pb2.Input.Split(name="data", pattern=pattern)
    return ShardedExampleGen(
        folder or ".",
        input_config=example_gen_pb2.Input(splits=[split]),
        output_config=_splits(by) if (by := config.group or config.time) else None,
        source=replace(config.source, schema_file=config.schema),
        ingest=config.ingest,
    )


def image_examples(config: ImageConfig) -> ShardedExampleGen:
    """Returns the ExampleGen of `config.data`, with the splits of `image_splits`."""
    return ShardedExampleGen(
        config.data, output_config=image_splits(), source=config.source, ingest=config.ingest
    )


def image_splits() -> example_gen_pb2.Output:
    """Returns splits that keep equal images together: no image is both trained on and evaluated."""
    return _splits(image_features.ENCODED)


def _splits(feature: str) -> example_gen_pb2.Output:
    """Returns splits train and eval, 2 to 1; rows with equal `feature` go to the same split."""
    splits = [
        example_gen_pb2.SplitConfig.Split(name=split.name, hash_buckets=split.hash_buckets)
        for split in SplitOptions.splits
    ]
    return example_gen_pb2.Output(
        split_config=example_gen_pb2.SplitConfig(splits=splits, partition_feature_name=feature)
    )


def image_gate(config: ImageConfig, example_gen: BaseNode) -> BaseNode:
    """Returns the gate, with output `verdict`, that holds the images to `config.checks`."""
    return ImageGate(examples=example_gen.outputs["examples"], options=config.checks)


def last_spans(example_gen: BaseNode, count: int) -> Resolver:
    """Returns a resolver of `examples`: Examples of the newest `count` spans, with this run's."""
    rolling = range_config_pb2.RollingRange(num_spans=count)
    spans = Resolver(
        strategy_class=LatestSpansStrategy,
        config={"range_config": range_config_pb2.RangeConfig(rolling_range=rolling)},
        examples=Channel(type=Examples, producer_component_id=example_gen.id),
    ).with_id("Spans")
    spans.add_upstream_node(example_gen)
    return spans


def base_model(examples: BaseChannel) -> Resolver:
    """Returns a resolver of `model`: the latest blessed model trained on other Examples."""
    return _blessed(LatestBlessedOfOtherDataStrategy, examples=examples).with_id("BaseModel")


def baseline(candidate: BaseChannel) -> Resolver:
    """Returns a resolver of `model`, `model_blessing`: the latest blessed model of earlier runs."""
    return _blessed(LatestOtherBlessedModelStrategy, candidate=candidate).with_id("Baseline")


def baseline_statistics(candidate: BaseChannel) -> Resolver:
    """Returns a resolver of `statistics`: those of the latest run that blessed a model."""
    return Resolver(
        strategy_class=LatestBlessedStatisticsStrategy,
        statistics=Channel(type=ExampleStatistics),
        model_blessing=Channel(type=ModelBlessing),
        candidate=candidate,
    ).with_id("BaselineStatistics")


def _blessed(strategy: type[ResolverStrategy], **other_than: BaseChannel) -> Resolver:
    return Resolver(
        strategy_class=strategy,
        model=Channel(type=Model),
        model_blessing=Channel(type=ModelBlessing),
        **other_than,
    )
