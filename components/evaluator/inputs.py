"""Labels, predictions and weights of a batch, as TFMA's combiners would get them row by row.

Does for all rows at once what `metric_util.to_label_prediction_example_weight` does for one row.
Cases that it does not support are left to TFMA.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from tensorflow_model_analysis import constants
from tensorflow_model_analysis.metrics import metric_util
from tensorflow_model_analysis.utils import model_util

from penstock.components.batches.fallback import NotInBatchesError
from penstock.components.evaluator.slices import Coded

Extracts = Mapping[str, Any]


@dataclass(frozen=True)
class Batch:
    """Rows with labels and predictions."""

    rows: int
    extracts: Extracts  # before TFMA splits batches into rows
    column: Callable[[str], Coded | None]  # from the name of a feature to slice by to its values


@dataclass(frozen=True)
class Inputs:
    """Selects the labels, predictions and weights that one of TFMA's combiners adds."""

    model: str
    output: str
    # Keys of the entries to select if labels or predictions are dicts.
    label_key: str
    prediction_key: str
    weighted: bool

    @classmethod
    def of(cls, combiner: Any, *, model: str, output: str, sub_key: Any = None) -> "Inputs":
        """Returns the inputs of a combiner, from attributes that all of TFMA's combiners have."""
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
        """Selects one output of a model that returns a dict, by the names that TFMA knows."""
        if not isinstance(predictions, Mapping):
            return predictions
        try:
            key = self.prediction_key
            return metric_util.prepare_labels_and_predictions(None, predictions, key)[1]
        except ValueError as error:
            raise NotInBatchesError from error

    def weights(self, extracts: Extracts, rows: int) -> np.ndarray:
        """Returns the weights of the rows, float64 [n]; 1 for rows without weight."""
        found = _at(extracts.get(constants.EXAMPLE_WEIGHTS_KEY), self.model, self.output)
        if not self.weighted or found is None:
            return np.ones(rows)
        weights = _numbers(found)
        if weights.shape[1] != 1:
            raise NotInBatchesError
        return weights[:, 0].astype(np.float64)

    def pairs(self, extracts: Extracts) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Returns label (0 or 1 for classes), prediction and weight of each pair, arrays [n, c]."""
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
