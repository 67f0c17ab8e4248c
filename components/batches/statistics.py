"""TFDV's statistics from whole Arrow batches, by its own generators but without Beam.

    accumulators = add(plan, batches)              of one shard; picklable
    accumulators = merge(plan, [accumulators, ...])
    statistics = extract(plan, accumulators)       as TFDV's own proto

Only the counts of distinct values are not by TFDV's code (`distinct_values.py`).
"""

import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import numpy as np
import pyarrow as pa
from tensorflow_data_validation import StatsOptions
from tensorflow_data_validation.statistics import stats_impl
from tensorflow_data_validation.statistics.generators.stats_generator import CombinerStatsGenerator
from tensorflow_data_validation.statistics.generators.top_k_uniques_stats_generator import (
    TopKUniquesStatsGenerator,
)
from tensorflow_data_validation.utils import slicing_util
from tensorflow_metadata.proto.v0.statistics_pb2 import DatasetFeatureStatisticsList
from tfx_bsl.arrow.table_util import RecordBatchTake
from tfx_bsl.statistics.merge_util import merge_dataset_feature_statistics

from penstock.components.batches.distinct_values import DistinctValues
from penstock.components.batches.fallback import named
from penstock.components.batches.shards import (
    ShardTask,
    merge_in_groups,
    read_batches,
    read_sequences,
)

# One accumulator per generator, by slice key; the key is None if there are no slices.
Accumulators = dict[str | None, list[Any]]

# TFDV's `sample_rate` keeps or drops whole batches; parts of this size equal TFDV's batches.
_SAMPLED_ROWS = 1000


@dataclass(frozen=True)
class Plan:
    """Work on each shard: TFDV's generators with `DistinctValues`, and slice functions."""

    options: StatsOptions
    generators: list[CombinerStatsGenerator]
    slicers: list[Callable[..., Any]]  # each returns the slices of a batch; empty without slices


def not_in_batches(options: StatsOptions) -> str | None:
    """Names the options that only TFDV's own pipeline supports; None if there are none."""
    slices_by_sql = _slicers(options)[1]
    overrides = options._per_feature_weight_override and not options.weight_feature
    reasons = {
        "label_feature": bool(options.label_feature),
        "slices by SQL": bool(slices_by_sql),
        "result partitions": options.experimental_result_partitions > 1,
        "per_feature_weight_override without weight_feature": bool(overrides),
        "experimental_filter_read_paths": options.experimental_filter_read_paths,
    }
    if not any(reasons.values()):
        known = all(map(_is_known, _generators(options)))
        reasons["a generator that is a Beam transform"] = not known
    return named(reasons)


def make_plan(options: StatsOptions) -> Plan:
    generators = [
        DistinctValues(options) if isinstance(one, TopKUniquesStatsGenerator) else one
        for one in _generators(options)
    ]
    for generator in generators:
        generator.setup()
    slicers = _slicers(options)[0]
    return Plan(options, generators, [slicing_util.default_slicer, *slicers] if slicers else [])


@dataclass(frozen=True)
class SummarizeShard:
    """Accumulates a shard; picklable, and worker processes need not import TFX for it."""

    options: str  # TFDV's options as JSON
    sequences: bool

    @property
    def plan(self) -> Plan:
        return _plan(self.options)

    def __call__(self, task: ShardTask) -> Accumulators:
        return add(self.plan, (read_sequences if self.sequences else read_batches)(task))


@lru_cache(1)
def _plan(options: str) -> Plan:
    return make_plan(StatsOptions.from_json(options))


def _generators(options: StatsOptions) -> list[Any]:
    return list(stats_impl.get_generators(options))


def _is_known(generator: object) -> bool:
    return isinstance(generator, CombinerStatsGenerator | TopKUniquesStatsGenerator)


def _slicers(options: StatsOptions) -> tuple[list[Callable[..., Any]], list[str]]:
    """Returns slice functions and SQL queries; TFDV 1.21 returns no queries."""
    config = options.slicing_config
    if not config:
        queries = getattr(options, "experimental_slice_sqls", None)
        return list(options.experimental_slice_functions or []), list(queries or [])
    if hasattr(slicing_util, "convert_slicing_config_to_slice_functions"):
        return slicing_util.convert_slicing_config_to_slice_functions(config), []
    functions, queries = slicing_util.convert_slicing_config_to_slice_functions_and_sqls(config)
    return functions, queries


def add(plan: Plan, batches: Iterable[pa.RecordBatch]) -> Accumulators:
    found: Accumulators = {}
    for batch in batches:
        for key, rows in _slices(plan, batch):
            before = found.get(key) or [one.create_accumulator() for one in plan.generators]
            pairs = zip(plan.generators, before, strict=True)
            found[key] = [one.add_input(accumulator, rows) for one, accumulator in pairs]
    return {
        key: [g.compact(a) for g, a in zip(plan.generators, accumulators, strict=True)]
        for key, accumulators in found.items()
    }


def merge(plan: Plan, parts: Iterable[Accumulators]) -> Accumulators:
    return merge_in_groups(parts, partial(_merged, plan))


def _merged(plan: Plan, parts: Sequence[Accumulators]) -> Accumulators:
    by_key: dict[str | None, list[list[Any]]] = {}
    for part in parts:
        for key, accumulators in part.items():
            by_key.setdefault(key, []).append(accumulators)
    return {
        key: [
            generator.merge_accumulators(list(of_one))
            for generator, of_one in zip(plan.generators, zip(*several, strict=True), strict=True)
        ]
        for key, several in by_key.items()
    }


def extract(plan: Plan, found: Accumulators) -> DatasetFeatureStatisticsList:
    """Returns the statistics, one dataset per slice; one empty dataset if there were no rows."""
    result = DatasetFeatureStatisticsList()
    if not found:
        result.datasets.add()
    for key, accumulators in found.items():
        pairs = zip(plan.generators, accumulators, strict=True)
        merged = merge_dataset_feature_statistics([one.extract_output(a) for one, a in pairs])
        [dataset] = merged.datasets
        if plan.slicers:
            dataset.name = key
        result.datasets.add().CopyFrom(dataset)
    return result


def estimated_features(plan: Plan, found: Accumulators) -> list[str]:
    names = set()
    for accumulators in found.values():
        for generator, accumulator in zip(plan.generators, accumulators, strict=True):
            if isinstance(generator, DistinctValues):
                names |= generator.estimated(accumulator)
    return sorted(names)


def _slices(plan: Plan, batch: pa.RecordBatch) -> Iterator[tuple[str | None, pa.RecordBatch]]:
    sampled = _sampled(batch, plan.options.sample_rate)
    if sampled is None:
        return
    if plan.options.feature_allowlist:
        sampled = stats_impl._filter_features(sampled, plan.options.feature_allowlist)
    if plan.slicers:
        yield from slicing_util.generate_slices(sampled, plan.slicers)
    else:
        yield None, sampled


def _sampled(batch: pa.RecordBatch, rate: float | None) -> pa.RecordBatch | None:
    if rate is None:
        return batch
    starts = range(0, batch.num_rows, _SAMPLED_ROWS)
    kept = [
        np.arange(start, min(start + _SAMPLED_ROWS, batch.num_rows))
        for start in starts
        if random.random() <= rate
    ]
    # Taken, not sliced: TFDV raises IndexError for nested arrays with an offset.
    return RecordBatchTake(batch, pa.array(np.concatenate(kept))) if kept else None
