"""Runs TFT's analysis of a preprocessing_fn on shards, without Beam; writes a TransformGraph.

TFT traces a preprocessing_fn into a graph of operations, which a visitor of TFT's turns into a Beam
pipeline. The visitor in this module turns the graph into plain calls. Operations that read rows
accumulate their results shard by shard; those that need the same earlier results form a phase, in
which the rows are read once. All other operations are functions of small lists. Tracing, combiners
and the writer of the SavedModel are TFT's own.
"""

import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import tensorflow as tf
from tensorflow_metadata.proto.v0 import schema_pb2
from tensorflow_transform import TFTransformOutput as Folder
from tensorflow_transform import (
    analyzer_nodes,
    annotators,
    graph_context,
    graph_tools,
    impl_helper,
    nodes,
)
from tensorflow_transform.beam import analysis_graph_builder, analyzer_impls, beam_nodes
from tensorflow_transform.tf_metadata import dataset_metadata, metadata_io, schema_utils

from penstock.components import activity
from penstock.components.batches.analyzers import ACCUMULATING, Accumulating, extracted, summed
from penstock.components.batches.fallback import NotInBatchesError
from penstock.components.batches.shards import ShardTask, merge_in_groups
from penstock.components.errors import DataError, graph_cause
from penstock.components.isolation import isolated
from penstock.components.sources.tfrecords.examples import read_payloads

PreprocessingFn = Callable[[Mapping[str, Any]], Mapping[str, Any]]
# Runs a function, which takes a shard and returns a result, on all shards.
RunShards = Callable[[Callable[[ShardTask], Any]], Iterable[Any]]
# An analyzer's result: name of the traced graph's tensor that it replaces, its value, its dtype.
Replacement = tuple[str, Any, int]

_BATCH_ROWS = 8192
# TFX's maximum number of rows per batch, used if an analyzer adds up float32 values element by
# element (docs/decisions/0016).
_TFT_BATCH_ROWS = 1000
_TEMPORARY = ".temp_path"


def analyze(
    preprocessing_fn: PreprocessingFn, schema: schema_pb2.Schema, output: str, run: RunShards
) -> None:
    """Writes the folders of a TransformGraph; leaves no file if it raises NotInBatchesError."""
    temporary = os.path.join(output, _TEMPORARY)
    tf.io.gfile.makedirs(temporary)
    spec = schema_utils.schema_as_feature_spec(schema).feature_spec
    try:
        traced = _Traced(preprocessing_fn, spec, temporary)
        saved_model = os.path.join(temporary, "saved_model")
        assets = _write_graph(traced, saved_model, run)
        _move(saved_model, output, schema, assets)
    finally:
        tf.io.gfile.rmtree(temporary)


def _write_graph(traced: "_Traced", saved_model: str, run: RunShards) -> Mapping[str, str]:
    """Analyzes the shards, writes the SavedModel; returns the file names of its assets by key."""
    graph, inputs, outputs = impl_helper.trace_preprocessing_function(
        traced.preprocessing_fn, traced.specs, False, traced.temporary
    )
    assets: Mapping[str, str] = annotators.get_asset_annotations(graph)
    annotators.clear_asset_annotations(graph)
    fingerprint = graph_tools.get_analyzers_fingerprint(graph, inputs)
    future, _, leaves = analysis_graph_builder.build(graph, inputs, outputs, {}.keys(), None)

    def run_phase(phase: "_Phase") -> list[Any]:
        names = {key: tensor.name for key, tensor in phase.model.signature.items()}
        work = _PhaseWork(traced, names, phase.model.replacements(), phase.accumulating)

        def merged(parts: Sequence[list[Any]]) -> list[Any]:
            pairs = zip(phase.accumulating, zip(*parts, strict=True), strict=True)
            return [one.merge(of_shards) for one, of_shards in pairs]

        return merge_in_groups(run(work), merged)

    traverser = nodes.Traverser(_Calls(traced.temporary, run_phase))
    # This visit finds all accumulating operations before any row is read.
    model = traverser.visit_value_node(future)
    for leaf in leaves:
        traverser.visit_value_node(leaf)
    impl_helper.trace_and_write_v2_saved_model(
        saved_model,
        traced.preprocessing_fn,
        traced.specs,
        traced.temporary,
        fingerprint,
        _as_tensors(model.replacements()),
        {},
        None,
    )
    return assets


def _move(
    saved_model: str, output: str, schema: schema_pb2.Schema, assets: Mapping[str, str]
) -> None:
    own = os.path.join(saved_model, impl_helper.METADATA_DIR_NAME)
    metadata = metadata_io.read_metadata(own)
    tf.io.gfile.rmtree(own)
    transformed = os.path.join(output, Folder.TRANSFORMED_METADATA_DIR)
    metadata_io.write_metadata(metadata, transformed)
    if assets:
        with tf.io.gfile.GFile(os.path.join(transformed, Folder.ASSET_MAP), "w") as file:
            file.write(json.dumps(assets))
    raw = dataset_metadata.DatasetMetadata(schema)
    metadata_io.write_metadata(raw, os.path.join(output, Folder.RAW_METADATA_DIR))
    tf.io.gfile.rename(saved_model, os.path.join(output, Folder.TRANSFORM_FN_DIR))


@dataclass(frozen=True)
class _Traced:
    preprocessing_fn: PreprocessingFn
    feature_spec: Mapping[str, Any]
    temporary: str  # folder of vocabularies, until they are copied into the SavedModel

    @property
    def specs(self) -> dict[str, tf.TypeSpec]:
        return impl_helper.get_type_specs_from_feature_specs(self.feature_spec)


def _as_tensors(replacements: Sequence[Replacement]) -> dict[str, tf.Tensor] | None:
    return {
        name: tf.constant(value, tf.dtypes.as_dtype(dtype)) for name, value, dtype in replacements
    } or None


@dataclass
class _PhaseWork:
    """Accumulates one shard for all analyzers of a phase; picklable."""

    traced: _Traced
    names: Mapping[str, str]  # tensors that the analyzers read, by key in the signature
    replacements: Sequence[Replacement]  # results of earlier phases
    accumulating: Sequence[Accumulating]
    _inputs: Any = field(default=None, init=False)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_inputs": None}

    def __call__(self, task: ShardTask) -> list[Any]:
        # The function is traced once per process and phase, because a trace takes 0.2 s.
        self._inputs = self._inputs or self._trace()
        found = [one.create() for one in self.accumulating]
        read = 0
        by_element = any(one.adds_by_element for one in self.accumulating)
        rows = _TFT_BATCH_ROWS if by_element else _BATCH_ROWS
        for records in read_payloads(task.file, task.shard, rows=rows):
            try:
                batch = {key: value.numpy() for key, value in self._inputs(records).items()}
            except tf.errors.InvalidArgumentError as error:
                where = f"{task.file}, rows {read:,} and on"
                raise DataError(f"{where}: {graph_cause(error.message)}") from error
            pairs = zip(self.accumulating, found, strict=True)
            found = [one.add(accumulator, batch) for one, accumulator in pairs]
            read += len(records)
            activity.advance(len(records))
        return found

    def _trace(self) -> Callable[[list[bytes]], dict[str, tf.Tensor]]:
        traced = self.traced
        replacements = _as_tensors(self.replacements)
        context = graph_context.TFGraphContext(tf.Module(), traced.temporary, replacements)
        with annotators.object_tracker_scope(annotators.ObjectTracker()):
            transform_fn = impl_helper.get_traced_transform_fn(
                traced.preprocessing_fn, traced.specs, context, self.names
            ).get_concrete_function()
        signature = [tf.TensorSpec([None], tf.string)]

        @tf.function(input_signature=signature, autograph=False)
        def inputs(records: tf.Tensor) -> dict[str, tf.Tensor]:
            return isolated(transform_fn)(tf.io.parse_example(records, traced.feature_spec))

        inputs.kept = context  # keeps the graph's lookup tables alive
        return lambda records: inputs(tf.constant(records))


# Values that operations pass to each other during the visit; None stands for the raw rows.


class _Later:
    """A short list of elements, computed once when it is first needed."""

    def __init__(self, compute: Callable[[], list[Any]]) -> None:
        self.get = cache(compute)

    def only(self, number: int) -> "_Later":
        return _Later(lambda: [self.get()[number]])


@dataclass(frozen=True)
class _Model:
    """The graph after the results of some analyzers have been put into it."""

    bindings: Sequence[_Later]
    signature: Mapping[str, Any]

    def replacements(self) -> list[Replacement]:
        return [replacement for binding in self.bindings for replacement in binding.get()]


class _Phase:
    """Analyzers that need the same earlier results; the rows are read once for all of them."""

    def __init__(self, model: _Model, run: Callable[["_Phase"], list[Any]]) -> None:
        self.model = model
        self.accumulating: list[Accumulating] = []
        self._results = cache(lambda: run(self))

    def add(self, one: Accumulating) -> _Later:
        number = len(self.accumulating)
        self.accumulating.append(one)
        return _Later(lambda: one.output(self._results()[number]))


@dataclass(frozen=True)
class _Column:
    """One or several of a phase's columns, as input of an analyzer."""

    phase: _Phase
    keys: Any


class _Calls(nodes.Visitor):
    """Turns TFT's operations into calls; raises NotInBatchesError at the first unsupported one."""

    def __init__(self, temporary: str, run_phase: Callable[[_Phase], list[Any]]) -> None:
        self._run_phase = run_phase
        self._small: dict[type, Callable[..., list[Any]]] = {
            **_SMALL,
            analyzer_nodes.VocabularyOrderAndWrite: partial(_write_vocabulary, temporary),
        }

    def validate_value(self, value: object) -> None:
        assert value is None or isinstance(value, _Later | _Model | _Phase | _Column)

    def visit(self, operation: Any, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
        match operation:
            case beam_nodes.ExtractInputForSavedModel():
                return (None,)
            case beam_nodes.CreateSavedModel():
                return (_Model(inputs, operation.output_signature),)
            case beam_nodes.ApplySavedModel():
                return (_Phase(inputs[0], self._run_phase),)
            case beam_nodes.ExtractFromDict() if isinstance(inputs[0], _Phase):
                return (_Column(inputs[0], operation.keys),)
        if type(operation) in ACCUMULATING:
            # Packed combiners take a whole phase as input, other operations take columns of it.
            [given] = inputs
            phase, keys = (given.phase, given.keys) if isinstance(given, _Column) else (given, None)
            return (phase.add(ACCUMULATING[type(operation)](operation, keys)),)
        if type(operation) not in self._small:
            raise NotInBatchesError(f"TFT's operation {type(operation).__name__}")
        _check_supported(operation)
        compute = self._small[type(operation)]
        made = _Later(lambda: compute(operation, *(one.get() for one in inputs)))
        if operation.num_outputs == 1:
            return (made,)
        return tuple(map(made.only, range(operation.num_outputs)))


def _check_supported(operation: Any) -> None:
    if isinstance(operation, analyzer_nodes.VocabularyPrune) and (
        operation.key_fn or operation.informativeness_threshold != float("-inf")
    ):
        raise NotInBatchesError("a vocabulary by keys or by informativeness")
    if isinstance(operation, analyzer_nodes.VocabularyOrderAndWrite) and (
        operation.fingerprint_shuffle or operation.file_format != "text"
    ):
        raise NotInBatchesError("a vocabulary that is shuffled or no text file")


# Each function below, except the helper `_merged`, computes an operation on short lists. It takes
# the operation and the elements of each input, and returns elements; if the operation has several
# outputs, it returns one element per output.


def _packed_merge(operation: Any, given: list[Any]) -> list[Any]:
    by_label: dict[str, list[Any]] = {}
    for label, accumulator in given:
        by_label.setdefault(label, []).append(accumulator)
    return [
        {one.label: _merged(one.combiner, by_label[one.keys[0]]) for one in operation.combiners}
    ]


def _merged(combiner: Any, accumulators: list[Any]) -> Any:
    return combiner.extract_output(combiner.merge_accumulators(accumulators))


def _count_vocabulary(operation: Any, given: list[Any]) -> list[Any]:
    # The elements are tables before `_prune_vocabulary`, and pairs after it.
    count = sum(one.num_rows if isinstance(one, pa.Table) else 1 for one in given)
    return [np.int64(max(1, count))]


def _prune_vocabulary(operation: Any, given: list[pa.Table]) -> list[tuple[Any, bytes]]:
    """Returns pairs (count, token), sorted only if `top_k` limits the list."""
    pairs: list[tuple[Any, bytes]] = []
    for table in given:
        if operation.frequency_threshold:
            table = table.filter(pc.greater_equal(table["count"], operation.frequency_threshold))
        if operation.input_dtype != tf.string.name:
            texts = [str(token).encode() for token in table["token"].to_pylist()]
            table = pa.table([pa.array(texts, pa.binary()), table["count"]], ["token", "count"])
        if operation.top_k is not None:
            keys = [("count", "descending"), ("token", "descending")]
            table = table.take(pc.sort_indices(table, sort_keys=keys)[: operation.top_k])
        pairs = list(zip(table["count"].to_pylist(), table["token"].to_pylist(), strict=True))
    if operation.top_k is None:
        return pairs
    return analyzer_impls.maybe_add_empty_vocabulary_dummy(pairs, operation.input_dtype)


def _write_vocabulary(temporary: str, operation: Any, given: list[Any]) -> list[Any]:
    pairs = list(given)
    if not operation.input_is_sorted:
        pairs.sort(reverse=True)
    pairs = analyzer_impls.maybe_add_empty_vocabulary_dummy(pairs, operation.input_dtype)
    line = analyzer_impls._count_and_token_to_bytes
    path = os.path.join(temporary, operation.vocab_filename)
    with tf.io.gfile.GFile(path, "wb") as file:
        lines = [line(*pair) if operation.store_frequency else pair[1] for pair in pairs]
        file.write(b"\n".join([*lines, b""]))
    return [np.array(path)]


_SMALL: Mapping[type, Callable[..., list[Any]]] = {
    beam_nodes.CreateTensorBinding: lambda op, given: [
        (op.tensor_name, value, op.dtype_enum) for value in given
    ],
    beam_nodes.ExtractFromDict: lambda op, given: [extracted(one, op.keys) for one in given],
    beam_nodes.Flatten: lambda op, *given: [one for several in given for one in several],
    analyzer_nodes.AddKey: lambda op, given: [(op.key, value) for value in given],
    analyzer_nodes.FlattenLists: lambda op, given: [one for several in given for one in several],
    analyzer_nodes.CacheableCombineMerge: lambda op, given: [_merged(op.combiner, given)],
    analyzer_nodes.PackedCombineMerge: _packed_merge,
    analyzer_nodes.ExtractCombineMergeOutputs: lambda op, given: list(given[0]),
    analyzer_nodes.ExtractPackedCombineMergeOutputs: lambda op, given: list(given[0]),
    analyzer_nodes.VocabularyMerge: lambda op, given: [summed(given)] if given else [],
    analyzer_nodes.VocabularyCount: _count_vocabulary,
    analyzer_nodes.VocabularyPrune: _prune_vocabulary,
}
