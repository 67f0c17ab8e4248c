"""ExampleGens for tables and for images."""

import os
from collections.abc import Mapping
from dataclasses import replace

from tfx.proto import example_gen_pb2

from penstock.components import image_features
from penstock.components.errors import UsageError
from penstock.components.evaluator.evaluation import HELD_OUT
from penstock.components.example_gen.component import ShardedExampleGen
from penstock.components.example_gen.spans import has_span, split_span_address
from penstock.pipelines.blocks.config import ImageConfig, TableConfig
from penstock.pipelines.blocks.resolvers import span_range

# Shares of the splits. `_BY_HASH` divides the rows by the hash of a feature or of the whole row.
# Its split `test` is held out: no epoch, threshold or blessing depends on its rows. `_BY_TIME` is
# for a column of times: eval has the rows from `ingest.split_at` on, whatever the shares are.
_BY_HASH = {"train": 4, "eval": 1, HELD_OUT: 1}
_BY_TIME = {"train": 2, "eval": 1}


def table_examples(config: TableConfig) -> ShardedExampleGen:
    """Returns the ExampleGen of `config.data`, with the types of `config.schema` if it is set.

    Raises:
        UsageError: `config.span` is set, but `config.data` has no placeholder for it.
    """
    folder, pattern = config.data, "*"
    if has_span(folder):
        folder, pattern = split_span_address(folder)
    elif "://" not in folder and not os.path.isdir(folder):
        folder, pattern = os.path.split(folder)
    if config.span >= 0 and not has_span(config.data):
        raise UsageError(f"span: data has no {{SPAN}} or {{YYYY}} in its name, got {config.data!r}")
    split = example_gen_pb2.Input.Split(name="data", pattern=pattern)
    return ShardedExampleGen(
        folder or ".",
        input_config=example_gen_pb2.Input(splits=[split]),
        output_config=_splits(config.time or config.group, _BY_TIME if config.time else _BY_HASH),
        range_config=span_range(config.span, config.span) if config.span >= 0 else None,
        source=replace(config.source, schema_file=config.schema),
        ingest=config.ingest,
    )


def image_examples(
    config: ImageConfig, *, node: type[ShardedExampleGen] = ShardedExampleGen
) -> ShardedExampleGen:
    """Returns the ExampleGen of `config.data`, an instance of `node`.

    Its splits keep equal images together, so no image is both trained on and evaluated.
    """
    splits = _splits(image_features.ENCODED, _BY_HASH)
    return node(config.data, output_config=splits, source=config.source, ingest=config.ingest)


def _splits(feature: str | None, buckets: Mapping[str, int]) -> example_gen_pb2.Output:
    splits = [
        example_gen_pb2.SplitConfig.Split(name=name, hash_buckets=count)
        for name, count in buckets.items()
    ]
    return example_gen_pb2.Output(
        split_config=example_gen_pb2.SplitConfig(splits=splits, partition_feature_name=feature)
    )
