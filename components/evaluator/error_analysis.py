"""Error analysis of an evaluation: worst rows, a random sample, importance of features.

Input: the batches of the evaluation's only pass over the rows. Output: `error_analysis.json` beside
TFMA's files, for the report. Memory is bounded by the number of rows kept.
"""

import base64
import json
import logging
import math
import os
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow_model_analysis import constants
from tensorflow_model_analysis.proto import config_pb2

from penstock.components import image_features
from penstock.components.batches.fallback import NotInBatchesError
from penstock.components.evaluator import ERROR_ANALYSIS_NAME
from penstock.components.evaluator.associations import Value, correlations, groups
from penstock.components.evaluator.inputs import Extracts, Inputs
from penstock.components.evaluator.slice_metrics import slice_name
from penstock.components.evaluator.slices import SliceKey
from penstock.components.evaluator.tallies import KeyedSums
from penstock.components.tfrecord.example_proto import values_of

logger = logging.getLogger(__name__)

_MOST_WRONG = 20
# With 1,024 rows, the standard error of a mean is 1/32 of the rows' standard deviation. For each
# feature, the rows of the sample are predicted once more. In each call, TensorFlow formats the
# array of records as text; above 1,000 rows, NumPy shortens this text, which halves the time.
_SAMPLE_ROWS = 1_024
_SAMPLE_BYTES = 32 << 20
_IMPORTANCE_SECONDS = 10.0
# For this number of features, the most important ones, rows with similar values are grouped, and
# the mean label and prediction of each group are written.
_SHOWN_AGAINST = 6
# Replaces all labels except 0 and 1 if a row has a single prediction, because a regression may have
# any number of distinct labels.
_OTHER = math.inf

# Labels [n] and predictions [n, b] of n rows; b is the number of classes, or 1.
Columns = tuple[np.ndarray, np.ndarray]
# By feature and target: how much a row's error grows if the feature is shuffled among the rows, as
# (mean, standard error).
Importance = dict[str, dict[str, tuple[float, float]]]
Predict = Callable[[np.ndarray], Extracts]


class ErrorAnalysis:
    """Collects a random sample and the worst rows, for each output of the candidate.

    A row's error is the distance between its prediction and its label; with several classes, the
    difference between the highest prediction and the prediction of the label's class. An instance
    is picklable. `parts` is the number of analyses that are merged in the end; each keeps only its
    share of the sample's bytes.
    """

    def __init__(self, eval_config: config_pb2.EvalConfig, seed: int = 0, parts: int = 1) -> None:
        spec = next(s for s in eval_config.model_specs if not s.is_baseline)
        name = spec.name if len(eval_config.model_specs) > 1 else ""
        self._labels = set(spec.label_keys.values()) | {spec.label_key}
        self._outputs = {
            spec.label_keys.get(output, spec.label_key): Inputs(
                name, output, spec.label_key, spec.prediction_key, weighted=False
            )
            for output in list(spec.label_keys) or [""]
        }
        self._wrong = {target: _Kept(_MOST_WRONG) for target in self._outputs}
        self._classes: dict[str, Counter[float]] = {target: Counter() for target in self._outputs}
        self._squares = {target: KeyedSums() for target in self._outputs}
        self._sample: _Kept | None = None
        self._sample_bytes = _SAMPLE_BYTES // parts
        self._random = np.random.default_rng(seed)

    def add(self, extracts: Extracts, rows: np.ndarray, slices: np.ndarray) -> None:
        """Adds a batch of TFMA's extracts; `rows` and `slices` are from `Slicer.members`."""
        records = extracts[constants.INPUT_KEY]
        if self._sample is None:
            mean_bytes = 1 + sum(map(len, records)) // len(records)
            self._sample = _Kept(min(_SAMPLE_ROWS, 1 + self._sample_bytes // mean_bytes))
        columns = [records]
        try:
            read = {target: _read(inputs, extracts) for target, inputs in self._outputs.items()}
        except NotInBatchesError:  # such as labels that are texts, or several per row
            self._outputs = {}
            return
        for target, (labels, predictions) in read.items():
            far = _distances(labels, predictions)
            self._wrong[target].add(np.where(far > 0, far, np.nan), records, labels, predictions)
            columns += [labels, predictions]
            squares = far[rows] ** 2
            self._squares[target].add(slices, np.stack([np.ones(len(rows)), squares, squares**2]))
            if predictions.shape[1] == 1:
                labels = np.where((labels == 0) | (labels == 1), labels, _OTHER)
            values, found = np.unique(labels, return_counts=True)
            self._classes[target].update(dict(zip(values.tolist(), found.tolist(), strict=True)))
        self._sample.add(self._random.random(len(records)), *columns)

    def merge(self, other: "ErrorAnalysis", numbers: np.ndarray) -> None:
        """Adds another analysis' rows; `numbers` maps its slice numbers to ours, int64 [slices]."""
        if not other._outputs:
            self._outputs = {}
        if other._sample is None or not self._outputs:
            return
        for target in self._outputs:
            self._wrong[target].merge(other._wrong[target])
            self._squares[target].merge(other._squares[target], numbers)
            self._classes[target].update(other._classes[target])
        self._sample = self._sample or _Kept(_SAMPLE_ROWS)
        self._sample.merge(other._sample)

    def write(self, folder: str, slices: Sequence[SliceKey], predict: Predict | None) -> None:
        """Writes `error_analysis.json` into an evaluation's folder; `slices` are TFMA's keys.

        Without `predict`, features have no importance.
        """
        if self._sample is None or not self._outputs:
            return
        records, *flat = self._sample.columns
        known = dict(zip(self._outputs, zip(flat[::2], flat[1::2], strict=True), strict=True))
        rows = [tf.train.Example.FromString(record) for record in records] if predict else []
        importance = self._importance(rows, known, predict) if predict else {}
        found = {
            target: {
                **self._target(target, labels, predictions, slices),
                "importance": {name: by[target] for name, by in importance.items()},
                **_against_target(target, rows, labels, predictions, importance),
            }
            for target, (labels, predictions) in known.items()
        }
        with tf.io.gfile.GFile(os.path.join(folder, ERROR_ANALYSIS_NAME), "w") as file:
            file.write(json.dumps({"sampled": len(records), "targets": found}))

    def _target(
        self, target: str, labels: np.ndarray, predictions: np.ndarray, slices: Sequence[SliceKey]
    ) -> dict[str, Any]:
        counts = self._classes[target]
        task = _task(counts, predictions)
        wrong = [
            {
                "label": float(label),
                "prediction": prediction.tolist(),
                "record": base64.b64encode(record).decode(),
            }
            for record, label, prediction in zip(*self._wrong[target].columns, strict=True)
        ]
        regression = task == "regression"
        return {
            "task": task,
            "labels": None if regression else {f"{v:g}": counts[v] for v in sorted(counts)},
            "sample": [labels.tolist(), predictions[:, 0].tolist()] if regression else None,
            "squared_errors": self._squared_errors(target, slices) if regression else None,
            "most_wrong": wrong,
        }

    def _squared_errors(self, target: str, slices: Sequence[SliceKey]) -> dict[str, float]:
        """Returns the standard error of the mean squared error by slice, where it is above 0."""
        numbers, (count, total, squares) = self._squares[target].between(0, len(slices))
        errors = np.sqrt(np.maximum(squares / count - (total / count) ** 2, 0) / count)
        return {
            slice_name(slices[number]): error
            for number, error in zip(numbers.tolist(), errors.tolist(), strict=True)
            if error
        }

    def _importance(
        self, rows: Sequence[tf.train.Example], known: Mapping[str, Columns], predict: Predict
    ) -> Importance:
        """Returns, per feature, the mean growth of errors if it is shuffled, with standard error.

        Features that were not reached within the time limit are left out.
        """
        names = sorted({name for row in rows for name in row.features.feature} - self._labels)
        if len(names) < 2 or image_features.ENCODED in names:
            return {}  # a single feature, or an image: nothing to compare
        deadline = time.monotonic() + _IMPORTANCE_SECONDS
        before = {target: _distances(*columns) for target, columns in known.items()}
        order = self._random.permutation(len(rows))
        found: Importance = {}
        for name in names:
            if time.monotonic() > deadline:
                logger.info("importance: %d of %d features in time", len(found), len(names))
                break
            extracts = predict(np.array(_shuffled(rows, name, order), object))
            found[name] = {}
            for target, inputs in self._outputs.items():
                # Predictions are compared with the labels from before the shuffling, even if the
                # model computes labels from the shuffled feature.
                after = _distances(known[target][0], _read(inputs, extracts)[1])
                # The last bits of errors differ if the order of float32 sums changes.
                same = np.isclose(after, before[target], rtol=1e-5, atol=1e-6)
                change = np.where(same, 0.0, after - before[target])
                error = float(change.std() / np.sqrt(len(change)))
                found[name][target] = (float(change.mean()), error)
        return found


def _shuffled(rows: Sequence[tf.train.Example], name: str, order: np.ndarray) -> list[bytes]:
    found = []
    for row, other in zip(rows, order, strict=True):
        made = tf.train.Example()
        made.CopyFrom(row)
        # If the other row lacks the feature, this row gets an empty one, which parsers treat as
        # missing.
        made.features.feature[name].CopyFrom(rows[other].features.feature[name])
        found.append(made.SerializeToString())
    return found


def _against_target(
    target: str,
    rows: Sequence[tf.train.Example],
    labels: np.ndarray,
    predictions: np.ndarray,
    importance: Importance,
) -> dict[str, Any]:
    """Relates the most important features to the target, unless it has several classes."""
    names = sorted(importance, key=lambda name: -importance[name][target][0])[:_SHOWN_AGAINST]
    if predictions.shape[1] > 1 or not names:
        return {"against": {}, "correlations": {}}
    columns = {name: [_value(row.features.feature, name) for row in rows] for name in names}
    return {
        "against": {name: groups(columns[name], labels, predictions[:, 0]) for name in names},
        "correlations": correlations({target or "label": labels.tolist(), **columns}),
    }


def _value(row: Mapping[str, tf.train.Feature], name: str) -> Value:
    """Returns the first value of a row's feature; None if there is none or it is not finite."""
    for value in values_of(row, name)[:1]:
        if isinstance(value, bytes):
            return value.decode("utf-8", "replace")
        return float(value) if math.isfinite(value) else None
    return None


class _Kept:
    """The rows with the highest scores; rows with score NaN are left out."""

    def __init__(self, rows: int) -> None:
        self._rows = rows
        self._scores = np.zeros(0)
        self.columns: list[np.ndarray] = []

    def add(self, scores: np.ndarray, *columns: np.ndarray) -> None:
        held = self.columns or [column[:0] for column in columns]
        scores = np.concatenate([self._scores, scores])
        best = np.argsort(-scores, kind="stable")[: self._rows]
        best = best[~np.isnan(scores[best])]
        self._scores = scores[best]
        pairs = zip(held, columns, strict=True)
        self.columns = [np.concatenate(pair)[best] for pair in pairs]

    def merge(self, other: "_Kept") -> None:
        if other.columns:
            self.add(other._scores, *other.columns)


def _read(inputs: Inputs, extracts: Extracts) -> Columns:
    """Returns labels or class numbers [n], and predictions [n, b], both float64."""
    labels, predictions, _ = inputs.arrays(extracts)
    classes = predictions.shape[1]
    if labels.shape[1] == classes > 1:
        labels = labels.argmax(axis=1)[:, None]
    if labels.shape[1] > 1 or (classes > 1 and not 0 <= labels.min() <= labels.max() < classes):
        raise NotInBatchesError
    return labels[:, 0].astype(np.float64), predictions.astype(np.float64)


def _distances(labels: np.ndarray, predictions: np.ndarray) -> np.ndarray:
    """Returns the error of each prediction, [n], 0 or more."""
    if predictions.shape[1] == 1:
        return np.abs(labels - predictions[:, 0])
    own = predictions[np.arange(len(labels)), labels.astype(np.int64)]
    return predictions.max(axis=1) - own


def _task(labels: dict[float, int], predictions: np.ndarray) -> str:
    if predictions.shape[1] > 1:
        return "classes"
    shares = predictions.min() >= 0 and predictions.max() <= 1
    return "binary" if labels.keys() <= {0.0, 1.0} and shares else "regression"
