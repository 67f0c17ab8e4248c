"""Resolvers: nodes that take artifacts of earlier runs from the metadata store."""

from tfx.dsl.components.base.base_node import BaseNode
from tfx.dsl.components.common.resolver import Resolver, ResolverStrategy
from tfx.proto import range_config_pb2
from tfx.types import BaseChannel, Channel
from tfx.types.standard_artifacts import Examples, ExampleStatistics, Model, ModelBlessing

from penstock.components.example_gen.spans import LatestSpansStrategy
from penstock.components.gates.baseline import (
    LatestBlessedOfOtherDataStrategy,
    LatestBlessedStatisticsStrategy,
    LatestOtherBlessedModelStrategy,
)


def last_spans(example_gen: BaseNode, count: int, span: int = -1) -> Resolver:
    """Returns a resolver of `examples`: Examples of the newest `count` spans, including this run's.

    If `span` is 0 or more, it is the span of the run, and the resolver takes the spans from
    `span - count + 1` to `span`.
    """
    ranges = range_config_pb2.RangeConfig(
        rolling_range=range_config_pb2.RollingRange(num_spans=count)
    )
    if span >= 0:
        ranges = span_range(max(0, span - count + 1), span)
    spans = Resolver(
        strategy_class=LatestSpansStrategy,
        config={"range_config": ranges},
        examples=Channel(type=Examples, producer_component_id=example_gen.id),
    ).with_id("Spans")
    spans.add_upstream_node(example_gen)
    return spans


def span_range(first: int, last: int) -> range_config_pb2.RangeConfig:
    """Returns TFX's range of the spans from `first` to `last`."""
    static = range_config_pb2.StaticRange(start_span_number=first, end_span_number=last)
    return range_config_pb2.RangeConfig(static_range=static)


def base_model(examples: BaseChannel) -> Resolver:
    """Returns a resolver of `model`: the latest blessed model not trained on `examples`."""
    return _blessed(LatestBlessedOfOtherDataStrategy, examples=examples).with_id("BaseModel")


def latest_blessed(candidate: BaseChannel) -> Resolver:
    """Returns a resolver of `model`, the latest blessed one of earlier runs, and its blessing."""
    return _blessed(LatestOtherBlessedModelStrategy, candidate=candidate).with_id("Baseline")


def blessed_statistics(candidate: BaseChannel) -> Resolver:
    """Returns a resolver of `statistics`: those of the latest other run that blessed a model."""
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
