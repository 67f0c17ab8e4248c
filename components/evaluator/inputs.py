"""Rows with predictions as TFMA's extracts, and the arrays that TFMA's combiners accumulate.

`Predictor` decodes records and runs the models on them; `Inputs` selects labels, predictions and
weights. `Inputs` does for all rows at once what `metric_util.to_label_prediction_example_weight`
does for one row. Cases that `Inputs` does not support are left to TFMA.
"""

import gc
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import tensorflow as tf
from tensorflow_model_analysis import constants
from tensorflow_model_analysis.api.types import EvalSharedModel
from tensorflow_model_analysis.extractors import transformed_features_extractor
from tensorflow_model_analysis.metrics import metric_util
from tensorflow_model_analysis.proto import config_pb2
from tensorflow_model_analysis.utils import model_util, util

from penstock.components.batches.fallback import NotInBatchesError
from penstock.components.evaluator.slices import Values, values_of_lists, values_of_tensor
from penstock.components.sources.tfrecords.decode import RowDecoder

Extracts = Mapping[str, Any]

# Errors that a model raises if it has a fixed batch size or too little memory; TFMA then evaluates
# row by row.
_TOO_MANY = (
    ValueError,
    RuntimeError,
    tf.errors.InvalidArgumentError,
    tf.errors.ResourceExhaustedError,
)


@dataclass(frozen=True)
class Batch:
    """Rows with labels and predictions."""

    rows: int
    extracts: Extracts  # in TFMA's form before it splits batches into rows
    # Returns the values of a feature to slice by in each row; None if the batch lacks the feature.
    column: Callable[[str], list[Values] | None]


class Predictor:
    """Decodes records and runs the models on them: a candidate and, if there is one, a baseline."""

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
        """Returns a batch of the records (bytes objects [n]) with their predictions."""
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
        # A closure in TFMA's `batch_size` forms a reference cycle, which would keep the batch in
        # memory: 700 B per taxi row.
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
) -> list[Values] | None:
    """Returns a feature to slice by: the transformed one if it exists, else the raw one."""
    arrays = [held[name] for held in transformed if name in held]
    if arrays:
        flat = [array.reshape(len(array), -1) for array in arrays]
        return values_of_tensor(np.concatenate(flat, axis=1))
    index = columns.schema.get_field_index(name)
    return None if index < 0 else values_of_lists(columns.column(index))


def _decoded(decoder: RowDecoder, records: np.ndarray) -> pa.RecordBatch:
    """Decodes records to columns of lists; leaves out columns without any value, as TFMA does."""
    decoded = decoder.decode(records.tolist(), "the Examples to evaluate")
    pairs = zip(decoded.schema.names, decoded.columns, strict=True)
    lists = {name: column for name, column in pairs if not pa.types.is_null(column.type)}
    held = {name: column for name, column in lists.items() if len(column.flatten())}
    return pa.RecordBatch.from_arrays(list(held.values()), list(held))


@dataclass(frozen=True)
class Inputs:
    """Selects the labels, predictions and weights that one of TFMA's combiners accumulates."""

    model: str
    output: str
    # Keys of the entries to select if labels or predictions are dicts.
    label_key: str
    prediction_key: str
    weighted: bool

    @classmethod
    def of(cls, combiner: Any, output: str = "") -> "Inputs":
        """Returns the inputs of a combiner; `output` is set if the model has several outputs."""
        if key := getattr(combiner, "_key", None) or getattr(combiner, "_metric_key", None):
            model, output, sub_key = key.model_name, key.output_name, key.sub_key
        else:
            model, sub_key = combiner._model_name, getattr(combiner, "_sub_key", None)
            output = output or getattr(combiner, "_output_name", "")
        if sub_key is not None or getattr(combiner, "_class_weights", None):
            raise NotInBatchesError
        config = getattr(combiner, "_eval_config", None)
        spec = model_util.get_model_spec(config, model) if config else None
        return cls(
            model=model,
            output=output,
            label_key=spec.label_key if spec else "",
            prediction_key=spec.prediction_key if spec else "",
            weighted=combiner._example_weighted,
        )

    def arrays(self, extracts: Extracts) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Returns labels, predictions and weights of the rows in TFMA's extracts.

        Labels have shape [n, a] and predictions [n, b], in their own dtypes; weights are float64
        [n].
        """
        labels = extracts.get(constants.LABELS_KEY)
        predictions = extracts.get(constants.PREDICTIONS_KEY)
        labels = _numbers(_at(labels, self.label_key, self.model, self.output))
        predictions = _numbers(self._one_output(_at(predictions, self.model, self.output)))
        return labels, predictions, self.weights(extracts, len(predictions))

    def _one_output(self, predictions: Any) -> Any:
        """Selects the predictions from a model's dict of outputs, by TFMA's rules for its keys."""
        if not isinstance(predictions, Mapping):
            return predictions
        try:
            key = self.prediction_key
            return metric_util.prepare_labels_and_predictions(None, predictions, key)[1]
        except ValueError as error:
            raise NotInBatchesError from error

    def weights(self, extracts: Extracts, rows: int) -> np.ndarray:
        """Returns the rows' weights, float64 [n]; all are 1 if metric or data have no weights."""
        found = _at(extracts.get(constants.EXAMPLE_WEIGHTS_KEY), self.model, self.output)
        if not self.weighted or found is None:
            return np.ones(rows)
        weights = _numbers(found)
        if weights.shape[1] != 1:
            raise NotInBatchesError
        return weights[:, 0].astype(np.float64)

    def pairs(self, extracts: Extracts) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Returns labels, predictions and weights as arrays [n, c]; class ids become one-hot."""
        labels, predictions, weights = self.arrays(extracts)
        if labels.shape != predictions.shape:
            if labels.shape[1] != 1:
                raise NotInBatchesError
            labels = metric_util.one_hot(labels, predictions)
        return labels, predictions, np.broadcast_to(weights[:, None], predictions.shape)


def _at(value: Any, *names: str) -> Any:
    """Returns an entry of nested dicts; skips names that a level does not have."""
    for name in names:
        if name and isinstance(value, Mapping) and name in value:
            value = value[name]
    return value


def _numbers(value: Any) -> np.ndarray:
    dense = isinstance(value, np.ndarray) and value.dtype.kind in "iuf" and value.ndim in (1, 2)
    if not dense or 0 in value.shape[1:]:
        raise NotInBatchesError
    return value.reshape(len(value), -1)
