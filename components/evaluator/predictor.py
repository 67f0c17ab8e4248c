"""Decodes records and adds predictions, in TFMA's extracts (features, labels, predictions)."""

import gc
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import tensorflow as tf
from tensorflow_model_analysis import constants
from tensorflow_model_analysis.api.types import EvalSharedModel
from tensorflow_model_analysis.extractors import transformed_features_extractor
from tensorflow_model_analysis.proto import config_pb2
from tensorflow_model_analysis.utils import model_util, util

from penstock.components.batches.fallback import NotInBatchesError
from penstock.components.evaluator.inputs import Batch, Extracts
from penstock.components.evaluator.slices import Coded, coded_array, coded_list
from penstock.components.sources.tfrecords.examples import RowDecoder

# Errors of a model with a fixed batch size or with too little memory; TFMA goes row by row then.
_TOO_MANY = (
    ValueError,
    RuntimeError,
    tf.errors.InvalidArgumentError,
    tf.errors.ResourceExhaustedError,
)


class Predictor:
    """Decodes records and runs the models on them: a candidate and, if given, a baseline."""

    def __init__(
        self, eval_config: config_pb2.EvalConfig, models: Sequence[EvalSharedModel]
    ) -> None:
        self._specs = list(eval_config.model_specs)
        by_name = {model.model_name: model for model in models}
        names = ["" if len(self._specs) == 1 else spec.name for spec in self._specs]
        pairs = list(zip(names, self._specs, strict=True))
        self._transform = model_util.ModelSignaturesDoFn(
            model_specs=self._specs,
            eval_shared_models=by_name,
            output_keypath=[constants.TRANSFORMED_FEATURES_KEY],
            signature_names={n: list(spec.preprocessing_function_names) for n, spec in pairs},
            default_signature_names=list(transformed_features_extractor._DEFAULT_SIGNATURE_NAMES),
            prefer_dict_outputs=True,
        )
        self._predict = model_util.ModelSignaturesDoFn(
            model_specs=self._specs,
            eval_shared_models=by_name,
            output_keypath=[constants.PREDICTIONS_KEY],
            signature_names={n: [spec.signature_name] for n, spec in pairs},
            prefer_dict_outputs=False,
        )
        for step in (self._transform, self._predict):
            step.setup()
        self._decoder = RowDecoder({})

    def batch(self, records: np.ndarray) -> Batch:
        """Returns the records, bytes objects [n], with predictions."""
        try:
            return self._batch(records)
        except _TOO_MANY as error:
            reason = str(error).partition("\n")[0]
            raise NotInBatchesError(
                f"a model that does not take {len(records)} rows at once: {reason}"
            ) from error

    def _batch(self, records: np.ndarray) -> Batch:
        columns = _decoded(self._decoder, records)
        extracts = {
            constants.FEATURES_KEY: util.record_batch_to_tensor_values(columns),
            constants.INPUT_KEY: records,
        }
        for step in (self._transform, self._predict):
            [extracts] = step._batch_reducible_process(extracts)
        # A closure in TFMA's `batch_size` is a cycle that holds the batch: 700 B per taxi row.
        gc.collect(0)
        labels = model_util.get_feature_values_for_model_spec_field(
            self._specs, "label_key", "label_keys", extracts, True
        )
        weights = model_util.get_feature_values_for_model_spec_field(
            self._specs, "example_weight_key", "example_weight_keys", extracts
        )
        extracts[constants.LABELS_KEY] = labels
        if weights is not None:
            extracts[constants.EXAMPLE_WEIGHTS_KEY] = weights
        transformed = self._transformed(extracts)
        return Batch(len(records), extracts, lambda name: _column(name, columns, transformed))

    def _transformed(self, extracts: Extracts) -> list[dict[str, np.ndarray]]:
        found = extracts[constants.TRANSFORMED_FEATURES_KEY] or {}
        if len(self._specs) == 1:
            return [found] if found else []
        return [found[spec.name] for spec in self._specs if spec.name in found]


def _column(
    name: str, columns: pa.RecordBatch, transformed: Sequence[dict[str, np.ndarray]]
) -> Coded | None:
    """Returns a feature to slice by: the transformed one if it exists, else the raw one."""
    arrays = [held[name] for held in transformed if name in held]
    if arrays:
        flat = [array.reshape(len(array), -1) for array in arrays]
        return coded_array(np.concatenate(flat, axis=1))
    index = columns.schema.get_field_index(name)
    return None if index < 0 else coded_list(columns.column(index))


def _decoded(decoder: RowDecoder, records: np.ndarray) -> pa.RecordBatch:
    """Decodes records to columns of lists; leaves out columns that no row has, as TFMA does."""
    decoded = decoder.decode(records.tolist(), "the Examples to evaluate")
    pairs = zip(decoded.schema.names, decoded.columns, strict=True)
    lists = {name: column for name, column in pairs if not pa.types.is_null(column.type)}
    held = {name: column for name, column in lists.items() if len(column.flatten())}
    return pa.RecordBatch.from_arrays(list(held.values()), list(held))
