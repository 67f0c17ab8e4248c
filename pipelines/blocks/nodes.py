"""Nodes of pipelines: readers of tables and images, the image gate, resolvers of earlier runs."""

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
        output_config=_splits(by) if (by := config.group or config.time) else None,
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


def last_spans(example_gen: BaseNode, count: int) -> Resolver:
    """Resolves `examples`: Examples of the newest `count` spans, this run's included."""
    rolling = range_config_pb2.RollingRange(num_spans=count)
    spans = Resolver(
        strategy_class=LatestSpansStrategy,
        config={"range_config": range_config_pb2.RangeConfig(rolling_range=rolling)},
        examples=Channel(type=Examples, producer_component_id=example_gen.id),
    ).with_id("Spans")
    spans.add_upstream_node(example_gen)
    return spans


def base_model(examples: BaseChannel) -> Resolver:
    """Resolves `model`: the latest blessed one that was trained on other Examples, if any."""
    return _blessed(LatestBlessedOfOtherDataStrategy, examples=examples).with_id("BaseModel")


def baseline(candidate: BaseChannel) -> Resolver:
    """Resolves `model`, `model_blessing`: the latest blessed ones of earlier runs, if any."""
    return _blessed(LatestOtherBlessedModelStrategy, candidate=candidate).with_id("Baseline")


def baseline_statistics(candidate: BaseChannel) -> Resolver:
    """Resolves `statistics`: those of the run that blessed a model last, if any."""
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
