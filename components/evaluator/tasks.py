"""Evaluation in tasks: each sums the rows of a shard; the sums are merged in the shards' order."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import tensorflow_model_analysis as tfma
from tensorflow_model_analysis.evaluators import metrics_plots_and_validations_evaluator as stock
from tensorflow_model_analysis.metrics import metric_specs
from tensorflow_model_analysis.proto import config_pb2

from penstock.components import activity
from penstock.components.batches.fallback import NotInBatchesError
from penstock.components.batches.shards import ShardTask, run_shards
from penstock.components.engine.tasks import Engine
from penstock.components.evaluator.class_tallies import tally_of
from penstock.components.evaluator.error_analysis import ErrorAnalysis
from penstock.components.evaluator.inputs import Batch, Predictor
from penstock.components.evaluator.slices import SliceKey, Slicer
from penstock.components.evaluator.tallies import KeyedSums, Tally
from penstock.components.sources.tfrecords.examples import read_payloads
from penstock.components.tfrecord.sharding import MIB

# CPU time per row: 94 us in batches of 256, 41 us in batches of 1,024, 28 us in batches of 4,096.
_MOST_ROWS = 4096
# A network needs far more memory than the bytes of its input; with images of 85 KB, a batch has 96
# rows.
_BATCH_BYTES = 8 * MIB


@dataclass
class Sums:
    """Sums over the rows of some shards; picklable, unlike TFMA's combiners."""

    rows: int
    keys: list[SliceKey]  # TFMA's slice keys, by slice number
    tallies: list[KeyedSums]
    analysis: ErrorAnalysis

    def merge(self, other: "Sums") -> None:
        numbers = {key: number for number, key in enumerate(self.keys)}
        theirs = np.array([numbers.setdefault(key, len(numbers)) for key in other.keys], np.int64)
        self.keys = [*numbers]
        self.rows += other.rows
        for tally, more in zip(self.tallies, other.tallies, strict=True):
            tally.merge(more, theirs)
        self.analysis.merge(other.analysis, theirs)


@dataclass(frozen=True)
class EvaluateShard:
    """Evaluates a task's shard; what a process needs for all its shards is created once."""

    config: bytes
    models: tuple[tuple[str, str], ...]  # path, and name as in TFMA's updated config
    shards: int  # number of all tasks

    def __reduce__(self) -> tuple[type["EvaluateShard"], tuple[object, ...]]:
        return EvaluateShard, (self.config, self.models, self.shards)  # without cached properties

    @cached_property
    def eval_config(self) -> config_pb2.EvalConfig:
        return config_pb2.EvalConfig.FromString(self.config)

    @cached_property
    def computations(self) -> Any:
        specs = list(self.eval_config.metrics_specs)
        found = metric_specs.to_computations(specs, eval_config=self.eval_config)
        return stock._filter_and_separate_computations(found)

    @cached_property
    def tallies(self) -> list[Tally]:
        return [tally_of(one) for one in self.computations.non_derived_computations]

    @cached_property
    def predictor(self) -> Predictor:
        models = [
            tfma.default_eval_shared_model(path, model_name=name, eval_config=self.eval_config)
            for path, name in self.models
        ]
        return Predictor(self.eval_config, models)

    def __call__(self, task: ShardTask) -> Sums | str:
        """Returns the sums, or a NotInBatchesError's text; engines would replace the error."""
        payloads = read_payloads(task.file, task.shard, rows=_MOST_ROWS, size=_BATCH_BYTES)
        batches = (self.predictor.batch(np.array(records, object)) for records in payloads)
        seed = int(task.shard.sha256, 16)  # does not depend on other shards in this process
        try:
            return self.summed(batches, seed)
        except NotInBatchesError as error:
            return str(error)

    def summed(self, batches: Iterable[Batch], seed: int = 0) -> Sums:
        """Returns the sums of batches; `seed` picks the sample of the error analysis."""
        slicer, rows_read = Slicer(self.eval_config), 0
        analysis = ErrorAnalysis(self.eval_config, seed, parts=self.shards)
        for batch in batches:
            rows, slices = slicer.members(batch.rows, batch.column)
            for tally in self.tallies:
                tally.add(batch.extracts, rows, slices)
            analysis.add(batch.extracts, rows, slices)
            rows_read += batch.rows
            activity.advance(batch.rows)
        sums = [tally.take() for tally in self.tallies]
        return Sums(rows_read, slicer.keys, sums, analysis)


def sum_shards(
    work: EvaluateShard, tasks: Sequence[ShardTask], *, engine: Engine, output: str
) -> Sums:
    """Returns the sums over one or more shards, which are the same on any engine."""
    parts = (_checked(part) for part in run_shards(work, tasks, engine=engine, output=output))
    merged = next(parts)
    for part in parts:
        merged.merge(part)
    return merged


def _checked(part: Sums | str) -> Sums:
    if isinstance(part, str):
        raise NotInBatchesError(part)
    return part
