"""Counts distinct values of text and categorical features: TFDV's top values and uniques.

TFDV's own generator of these is a Beam transform with one element per value. This one counts
exactly in Arrow, up to a limit per feature; above it, tfx_bsl's sketches estimate.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from tensorflow_data_validation import StatsOptions, constants
from tensorflow_data_validation.arrow import arrow_util
from tensorflow_data_validation.statistics.generators import top_k_uniques_stats_generator
from tensorflow_data_validation.statistics.generators.stats_generator import CombinerStatsGenerator
from tensorflow_data_validation.types import FeaturePath
from tensorflow_data_validation.utils import schema_util, stats_util
from tensorflow_data_validation.utils.top_k_uniques_stats_util import (
    FeatureValueCount,
    make_feature_stats_proto_topk_uniques,
)
from tensorflow_metadata.proto.v0.statistics_pb2 import DatasetFeatureStatistics
from tfx_bsl.arrow import array_util
from tfx_bsl.sketches import KmvSketch, MisraGriesSketch

from penstock.components.tfrecord.sharding import MIB

# Above either limit a feature is estimated: a merge of a million short texts takes 30 MiB, 0.3 s.
MAX_EXACT_VALUES = 1_000_000
MAX_EXACT_BYTES = 64 * MIB
_MAX_UNMERGED = 32
# With it, the number of distinct values is right to 1.6 % (one standard deviation).
_SKETCH_BUCKETS = 4096
# As in TFDV, all longer texts count as the same "large" value.
_LARGE_TEXT_BYTES = 1024


class ExactCounts:
    """Distinct values of a feature with their counts, and with weights if rows have weights."""

    def __init__(self) -> None:
        self._tables: list[pa.Table] = []

    def add(self, table: pa.Table) -> None:
        """Adds a table `value, count[, weight]` of distinct values."""
        self._tables.append(table)
        pending = sum(table.nbytes for table in self._tables[1:])
        if len(self._tables) >= _MAX_UNMERGED or pending > MAX_EXACT_BYTES:
            self.table()

    def table(self) -> pa.Table:
        if len(self._tables) > 1:
            names = self._tables[0].column_names
            sums = [(name, "sum") for name in names[1:]]
            summed = pa.concat_tables(self._tables).group_by("value").aggregate(sums)
            plain = [name.removesuffix("_sum") for name in summed.column_names]
            self._tables = [summed.rename_columns(plain).select(names)]
        return self._tables[0]

    @property
    def is_too_large(self) -> bool:
        """Returns whether there are more values, or more bytes, than may be counted exactly."""
        # If even the sum over tables is below the limits, no merge is needed.
        if _is_within_bounds(self._tables):
            return False
        return not _is_within_bounds([self.table()])


def _is_within_bounds(tables: Sequence[pa.Table]) -> bool:
    rows = sum(table.num_rows for table in tables)
    size = sum(table.nbytes for table in tables)
    return rows <= MAX_EXACT_VALUES and size <= MAX_EXACT_BYTES


class EstimatedCounts:
    """Sketches of the distinct values of a feature that has too many to count."""

    def __init__(self, buckets: int) -> None:
        self.distinct = KmvSketch(_SKETCH_BUCKETS)
        self.top = [_top_values(buckets), _top_values(buckets)]

    def add(self, table: pa.Table) -> None:
        """Adds a table `value, count[, weight]` of distinct values."""
        values = table["value"].combine_chunks()
        self.distinct.AddValues(values)
        for sketch, name in zip(self.top, ("count", "weight"), strict=True):
            counts = table[name if name in table.column_names else "count"]
            sketch.AddValues(values, pc.cast(counts, pa.float32()).combine_chunks())

    def merge(self, other: "EstimatedCounts") -> None:
        self.distinct.Merge(other.distinct)
        for mine, others in zip(self.top, other.top, strict=True):
            mine.Merge(others)


def _top_values(buckets: int) -> MisraGriesSketch:
    return MisraGriesSketch(
        num_buckets=buckets,
        invalid_utf8_placeholder=constants.NON_UTF8_PLACEHOLDER,
        large_string_threshold=_LARGE_TEXT_BYTES,
        large_string_placeholder=constants.LARGE_BYTES_PLACEHOLDER,
    )


Counts = ExactCounts | EstimatedCounts
Accumulator = dict[FeaturePath, Counts]


class DistinctValues(CombinerStatsGenerator):
    """TFDV's TopKUniquesStatsGenerator as a combiner."""

    def __init__(self, options: StatsOptions) -> None:
        super().__init__("TopKUniquesStatsGenerator", options.schema)
        schema = options.schema
        self._options = options
        self._bytes = frozenset(schema_util.get_bytes_features(schema) if schema else [])
        self._numeric = schema_util.get_categorical_numeric_feature_types(schema) if schema else {}
        self._weights = options.example_weight_map
        self._most = max(options.num_top_values, options.num_rank_histogram_buckets)

    def create_accumulator(self) -> Accumulator:
        return {}

    def add_input(self, accumulator: Accumulator, batch: pa.RecordBatch) -> Accumulator:
        for path, column, weights in arrow_util.enumerate_arrays(
            batch, example_weight_map=self._weights, enumerate_leaves_only=True
        ):
            kind = stats_util.get_feature_type_from_arrow_type(path, column.type)
            if path in self._bytes or not top_k_uniques_stats_generator._should_run(
                self._numeric, path, kind
            ):
                continue
            values, rows = array_util.flatten_nested(column, weights is not None)
            if len(values):
                table = _counted(values, None if weights is None else weights[rows])
                self._add(accumulator, path, table)
        return accumulator

    def _add(self, accumulator: Accumulator, path: FeaturePath, table: pa.Table) -> None:
        counts = accumulator.setdefault(path, ExactCounts())
        counts.add(table)
        if isinstance(counts, ExactCounts) and counts.is_too_large:
            accumulator[path] = self._estimated(counts)

    def _estimated(self, counts: Counts) -> EstimatedCounts:
        if isinstance(counts, EstimatedCounts):
            return counts
        estimated = EstimatedCounts(max(_SKETCH_BUCKETS, self._most))
        estimated.add(counts.table())
        return estimated

    def compact(self, accumulator: Accumulator) -> Accumulator:
        """Returns the accumulator with each value only once, ready to be pickled."""
        for counts in accumulator.values():
            if isinstance(counts, ExactCounts):
                counts.table()
        return accumulator

    def merge_accumulators(self, accumulators: Iterable[Accumulator]) -> Accumulator:
        result: Accumulator = {}
        for accumulator in accumulators:
            for path, counts in accumulator.items():
                if isinstance(counts, ExactCounts):
                    self._add(result, path, counts.table())
                elif path in result:
                    merged = result[path] = self._estimated(result[path])
                    merged.merge(counts)
                else:
                    result[path] = counts
        return self.compact(result)

    def estimated(self, accumulator: Accumulator) -> set[str]:
        return {str(p) for p, counts in accumulator.items() if isinstance(counts, EstimatedCounts)}

    def extract_output(self, accumulator: Accumulator) -> DatasetFeatureStatistics:
        """Returns the number of distinct values, top values and rank histogram of each feature."""
        result = DatasetFeatureStatistics()
        for path, counts in accumulator.items():
            unique, top, weighted_top = self._top(counts)
            proto = make_feature_stats_proto_topk_uniques(
                feature_path=path,
                frequency_threshold=self._options.frequency_threshold,
                weighted_frequency_threshold=self._options.weighted_frequency_threshold,
                num_top_values=self._options.num_top_values,
                num_rank_histogram_buckets=self._options.num_rank_histogram_buckets,
                num_unique=unique,
                value_count_list=top,
                weighted_value_count_list=weighted_top,
            )
            result.features.add().CopyFrom(proto)
        return result

    def _top(
        self, counts: Counts
    ) -> tuple[int, list[FeatureValueCount], list[FeatureValueCount] | None]:
        is_weighted = bool(self._weights.all_weight_features())
        if isinstance(counts, EstimatedCounts):
            by_count, by_weight = map(_estimates, counts.top)
            return counts.distinct.Estimate(), by_count, by_weight if is_weighted else None
        table = counts.table()
        weighted = _most_frequent(table, "weight", self._most) if is_weighted else None
        return table.num_rows, _most_frequent(table, "count", self._most), weighted


def _counted(values: pa.Array, weights: Any) -> pa.Table:
    if weights is None:
        counts = values.value_counts()
        return pa.table([counts.field("values"), counts.field("counts")], ["value", "count"])
    codes = values.dictionary_encode()
    index, size = codes.indices.to_numpy(), len(codes.dictionary)
    count = np.bincount(index, minlength=size)
    weight = np.bincount(index, weights=weights.astype(np.float64), minlength=size)
    return pa.table([codes.dictionary, count, weight], ["value", "count", "weight"])


def _most_frequent(table: pa.Table, by: str, most: int) -> list[FeatureValueCount]:
    if by not in table.column_names:  # without weights, each row counts 1
        table = table.append_column(by, pc.cast(table["count"], pa.float64()))
    order = pc.sort_indices(table, sort_keys=[(by, "descending"), ("value", "descending")])
    top = table.take(order[:most])
    pairs = zip(top["value"].to_pylist(), top[by].to_pylist(), strict=True)
    return [FeatureValueCount(value, count) for value, count in pairs]


def _estimates(sketch: MisraGriesSketch) -> list[FeatureValueCount]:
    return [FeatureValueCount(p["values"], p["counts"]) for p in sketch.Estimate().to_pylist()]
