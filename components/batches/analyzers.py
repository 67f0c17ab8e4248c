"""TFT's accumulating operations on whole batches, as plain calls: create, add, merge, output.

Combiners and their accumulators are TFT's own. Vocabularies are counted in Arrow.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
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

# Inputs of analyzers: arrays [rows, ...] by name of the tensor.
Batch = Mapping[str, np.ndarray]

_MAX_UNMERGED = 32


class Accumulating(ABC):
    """An operation that accumulates rows; it and its accumulators are picklable."""

    def __init__(self, operation: Any, keys: Any) -> None:
        self._combiner: Any = getattr(operation, "combiner", None)
        self._combiners: Any = list(getattr(operation, "combiners", ()))
        self.keys = keys

    def adds_by_element(self) -> bool:
        """True for float32 sums per element, whose error grows with the rows of a batch."""
        kinds = WeightedMeanAndVarCombiner, NumPyCombiner
        found = [self._combiner, *(one.combiner for one in self._combiners)]
        infos = [one.output_tensor_infos() for one in found if isinstance(one, kinds)]
        return any(one.dtype == tf.float32 and one.shape for several in infos for one in several)

    @abstractmethod
    def create(self) -> Any:
        """Returns an accumulator without rows."""

    @abstractmethod
    def add(self, accumulator: Any, batch: Batch) -> Any:
        """Returns the accumulator after the rows of a batch were added."""

    @abstractmethod
    def merge(self, accumulators: Sequence[Any]) -> Any:
        """Merges one or more accumulators into one."""

    @abstractmethod
    def output(self, accumulator: Any) -> list[Any]:
        """Returns the elements that TFT's operation would return."""


class _Combine(Accumulating):
    def create(self) -> Any:
        return self._combiner.create_accumulator()

    def add(self, accumulator: Any, batch: Batch) -> Any:
        return self._combiner.add_input(accumulator, extracted(batch, self.keys))

    def merge(self, accumulators: Sequence[Any]) -> Any:
        return self._combiner.merge_accumulators(list(accumulators))

    def output(self, accumulator: Any) -> list[Any]:
        return [self._combiner.compact(accumulator)]


class _PackedCombine(Accumulating):
    """Several combiners over all rows, packed into one operation by TFT."""

    def create(self) -> list[Any]:
        return [one.combiner.create_accumulator() for one in self._combiners]

    def add(self, accumulator: list[Any], batch: Batch) -> list[Any]:
        return [
            one.combiner.add_input(own, extracted(batch, tuple(one.keys)))
            for one, own in zip(self._combiners, accumulator, strict=True)
        ]

    def merge(self, accumulators: Sequence[list[Any]]) -> list[Any]:
        of_each = zip(*accumulators, strict=True)
        return [
            one.combiner.merge_accumulators(list(own))
            for one, own in zip(self._combiners, of_each, strict=True)
        ]

    def output(self, accumulator: list[Any]) -> list[Any]:
        pairs = zip(self._combiners, accumulator, strict=True)
        return [{one.label: one.combiner.compact(own) for one, own in pairs}]


class _Vocabulary(Accumulating):
    """Distinct tokens with counts, as tables with columns `token, count`."""

    def __init__(self, operation: Any, keys: Any) -> None:
        super().__init__(operation, keys)
        if operation.vocab_ordering_type != _VocabOrderingType.FREQUENCY:
            raise NotInBatchesError("a vocabulary by weights or mutual information")

    def create(self) -> list[pa.Table]:
        return []

    def add(self, accumulator: list[pa.Table], batch: Batch) -> list[pa.Table]:
        [tokens] = extracted(batch, self.keys)
        if len(tokens):
            accumulator.append(_counted(tokens))
        return [summed(accumulator)] if len(accumulator) >= _MAX_UNMERGED else accumulator

    def merge(self, accumulators: Sequence[list[pa.Table]]) -> list[pa.Table]:
        tables = [table for accumulator in accumulators for table in accumulator]
        return [summed(tables)] if tables else []

    def output(self, accumulator: list[pa.Table]) -> list[Any]:
        return accumulator


ACCUMULATING: Mapping[type, type[Accumulating]] = {
    analyzer_nodes.CacheableCombineAccumulate: _Combine,
    analyzer_nodes.PackedCombineAccumulate: _PackedCombine,
    analyzer_nodes.VocabularyAccumulate: _Vocabulary,
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


def _counted(tokens: np.ndarray) -> pa.Table:
    values = pa.array(tokens, pa.large_binary() if tokens.dtype == object else None)
    counts = values.value_counts()
    return pa.table([counts.field("values"), counts.field("counts")], ["token", "count"])
