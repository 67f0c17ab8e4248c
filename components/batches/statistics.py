"""Computes TFDV's statistics from whole Arrow batches, by TFDV's generators but without Beam.

`SummarizeShard` accumulates the rows of a shard; its method `merged` returns the statistics of all
shards as TFDV's proto.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from typing import Any

from tensorflow_data_validation import StatsOptions
from tensorflow_data_validation.statistics import stats_impl
from tensorflow_data_validation.statistics.generators.stats_generator import CombinerStatsGenerator
from tensorflow_data_validation.statistics.generators.top_k_uniques_sketch_stats_generator import (
    TopKUniquesSketchStatsGenerator,
)
from tensorflow_data_validation.statistics.generators.top_k_uniques_stats_generator import (
    TopKUniquesStatsGenerator,
)
from tensorflow_metadata.proto.v0.statistics_pb2 import DatasetFeatureStatisticsList
from tfx_bsl.statistics.merge_util import merge_dataset_feature_statistics

from penstock.components.batches.fallback import refuse
from penstock.components.batches.shards import (
    ShardTask,
    merge_in_groups,
    read_batches,
    read_sequences,
)

Accumulators = list[Any]  # one per generator

# TFDV's sketches count up to this number of distinct values of a feature exactly; with texts of 1
# KB, the sketches of a feature take at most 100 MiB of memory.
MAX_EXACT_VALUES = 100_000


def require_in_batches(options: StatsOptions) -> None:
    """Raises NotInBatchesError for options that only TFDV's own pipeline supports."""
    overrides = options._per_feature_weight_override and not options.weight_feature
    refuse(
        {
            "label_feature": options.label_feature,
            "slices": options.slicing_config is not None
            or options.experimental_slice_functions
            or getattr(options, "experimental_slice_sqls", None),
            "sample_rate": options.sample_rate is not None,
            "result partitions": options.experimental_result_partitions > 1,
            "per_feature_weight_override without weight_feature": overrides,
            "experimental_filter_read_paths": options.experimental_filter_read_paths,
        }
    )


@dataclass(frozen=True)
class SummarizeShard:
    """Accumulates the statistics of a shard; worker processes unpickle it without importing TFX."""

    options: str  # TFDV's options as JSON
    sequences: bool = False

    def __call__(self, task: ShardTask) -> Accumulators:
        options, generators = _made(self.options)
        found = [one.create_accumulator() for one in generators]
        for batch in (read_sequences if self.sequences else read_batches)(task):
            if options.feature_allowlist:
                batch = stats_impl._filter_features(batch, options.feature_allowlist)
            pairs = zip(generators, found, strict=True)
            found = [one.add_input(accumulator, batch) for one, accumulator in pairs]
        return [one.compact(of_one) for one, of_one in zip(generators, found, strict=True)]

    def merged(self, parts: Iterable[Accumulators]) -> DatasetFeatureStatisticsList:
        """Returns the statistics of shards: one dataset, which is empty if there are no shards."""
        generators = _made(self.options)[1]

        def merge(several: Sequence[Accumulators]) -> Accumulators:
            pairs = zip(generators, zip(*several, strict=True), strict=True)
            return [one.merge_accumulators(list(of_one)) for one, of_one in pairs]

        empty: Accumulators = [one.create_accumulator() for one in generators]
        found = merge_in_groups(chain([empty], parts), merge)
        pairs = zip(generators, found, strict=True)
        return merge_dataset_feature_statistics([one.extract_output(a) for one, a in pairs])


@lru_cache(1)
def _made(as_json: str) -> tuple[StatsOptions, list[CombinerStatsGenerator]]:
    options = StatsOptions.from_json(as_json)
    generators = [
        _distinct_values(options) if isinstance(one, TopKUniquesStatsGenerator) else one
        for one in stats_impl.get_generators(options)
    ]
    for generator in generators:
        generator.setup()
    return options, generators


def _distinct_values(options: StatsOptions) -> CombinerStatsGenerator:
    """Returns TFDV's sketches of top values and uniques, in place of its Beam transform."""
    return TopKUniquesSketchStatsGenerator(
        schema=options.schema,
        example_weight_map=options.example_weight_map,
        num_top_values=options.num_top_values,
        num_rank_histogram_buckets=options.num_rank_histogram_buckets,
        frequency_threshold=options.frequency_threshold,
        weighted_frequency_threshold=options.weighted_frequency_threshold,
        num_misragries_buckets=MAX_EXACT_VALUES,
        num_kmv_buckets=2 * MAX_EXACT_VALUES,  # so a count just above the maximum is exact too
        length_counter_sampling_rate=0.0,
    )
