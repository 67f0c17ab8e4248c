"""TFT's accumulating operations on whole batches, as plain calls: create, add, merge, output.

An operation and its accumulators are picklable. Combiners and their accumulators are TFT's own;
vocabularies are counted in Arrow.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import tensorflow as tf
from tensorflow_transform import analyzer_nodes
from tensorflow_transform.analyzers import (
    NumPyCombiner,
    WeightedMeanAndVarCombiner,
    _VocabOrderingType,
)

from penstock.components.batches.fallback import NotInBatchesError

# Inputs of analyzers: arrays [rows, ...] by their keys in the signature of the traced graph.
Batch = Mapping[str, np.ndarray]

_MAX_UNMERGED = 32


class Combine:
    """One combiner, or several that TFT packed into one operation, with their input keys."""

    def __init__(self, operation: Any, keys: Any) -> None:
        packed = getattr(operation, "combiners", None)
        self._labels = packed and [one.label for one in packed]
        self._combiners = (
            [(one.combiner, tuple(one.keys)) for one in packed]
            if packed
            else [(operation.combiner, keys)]
        )

    @property
    def adds_by_element(self) -> bool:
        """Whether it sums float32 tensors by element, with an error that grows with the batch."""
        kinds = WeightedMeanAndVarCombiner, NumPyCombiner
        infos = [one.output_tensor_infos() for one, _ in self._combiners if isinstance(one, kinds)]
        return any(one.dtype == tf.float32 and one.shape for several in infos for one in several)

    def create(self) -> list[Any]:
        return [one.create_accumulator() for one, _ in self._combiners]

    def add(self, accumulator: list[Any], batch: Batch) -> list[Any]:
        return [
            one.add_input(own, extracted(batch, keys))
            for (one, keys), own in zip(self._combiners, accumulator, strict=True)
        ]

    def merge(self, accumulators: Sequence[list[Any]]) -> list[Any]:
        """Merges one or more accumulators into one."""
        of_each = zip(*accumulators, strict=True)
        return [
            one.merge_accumulators(list(own))
            for (one, _), own in zip(self._combiners, of_each, strict=True)
        ]

    def output(self, accumulator: list[Any]) -> list[Any]:
        """Returns the elements that TFT's operation would return."""
        pairs = zip(self._combiners, accumulator, strict=True)
        found = [one.compact(own) for (one, _), own in pairs]
        return [dict(zip(self._labels, found, strict=True))] if self._labels else found


class Vocabulary:
    """Distinct tokens with counts, as tables with columns `token, count`."""

    adds_by_element = False

    def __init__(self, operation: Any, keys: Any) -> None:
        if operation.vocab_ordering_type != _VocabOrderingType.FREQUENCY:
            raise NotInBatchesError("a vocabulary by weights or mutual information")
        self._keys = keys

    def create(self) -> list[pa.Table]:
        return []

    def add(self, accumulator: list[pa.Table], batch: Batch) -> list[pa.Table]:
        [tokens] = extracted(batch, self._keys)
        if len(tokens):
            values = pa.array(tokens, pa.large_binary() if tokens.dtype == object else None)
            counts = values.value_counts()
            columns = [counts.field("values"), counts.field("counts")]
            accumulator.append(pa.table(columns, ["token", "count"]))
        return [summed(accumulator)] if len(accumulator) >= _MAX_UNMERGED else accumulator

    def merge(self, accumulators: Sequence[list[pa.Table]]) -> list[pa.Table]:
        tables = [table for accumulator in accumulators for table in accumulator]
        return [summed(tables)] if tables else []

    def output(self, accumulator: list[pa.Table]) -> list[Any]:
        return accumulator


Accumulating = Combine | Vocabulary
ACCUMULATING: Mapping[type, Callable[[Any, Any], Accumulating]] = {
    analyzer_nodes.CacheableCombineAccumulate: Combine,
    analyzer_nodes.PackedCombineAccumulate: Combine,
    analyzer_nodes.VocabularyAccumulate: Vocabulary,
}


def extracted(found: Mapping[str, Any], keys: Any) -> Any:
    """Returns the value of a key; for a tuple of keys, the values."""
    return tuple(found[key] for key in keys) if isinstance(keys, tuple) else found[keys]


def summed(tables: Sequence[pa.Table]) -> pa.Table:
    """Returns each token once, with the sum of its counts; needs at least one table."""
    if len(tables) == 1:
        return tables[0]
    sums = pa.concat_tables(tables).group_by("token").aggregate([("count", "sum")])
    return pa.table([sums["token"], sums["count_sum"]], ["token", "count"])
