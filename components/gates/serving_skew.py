"""Compares an exported model's answers, for raw Examples, with the expected answers.

Input: raw rows, and the answers of a session, which equal those of TensorFlow Serving. If a
TransformGraph is given and the model has the signature `predict_features`, the expected answers are
those of the model on the rows as they are transformed for training. Otherwise, and to explain a
difference, they are those of the model without TensorFlow's graph optimiser. Output: the first
difference as one sentence, with its reason.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import tensorflow as tf

from penstock.components.gates.options import PREDICT_FEATURES
from penstock.components.packing.transformed import load_transform, transform_of

Values = Mapping[str, np.ndarray]
_MOST_ROWS = 32  # a fault of the graph or the export shows in every row or in most rows
_FEATURES = "transform_features"
_FAULT = "docs/upstream.md describes its fault: pass the parsed features through tf.ensure_shape"


class Served:
    """A SavedModel's folder, and the model loaded into a session as TensorFlow Serving does."""

    def __init__(self, folder: str, session: Any, signatures: Mapping[str, Any]) -> None:
        self.folder, self._session, self.signatures = folder, session, signatures

    def run(self, signature: str, values: Mapping[str, Any]) -> Values:
        found = self.signatures[signature]
        fetches = {name: info.name for name, info in found.outputs.items()}
        return self._session.run(fetches, {found.inputs[n].name: v for n, v in values.items()})


def find_skew(
    served: Served,
    signature: str,
    rows: Sequence[bytes],
    answers: Sequence[Values],
    *,
    graph: str | None,
    tolerance: float,
) -> str | None:
    """Returns one sentence on the first answer that differs from the expected one, or None.

    Args:
        served: The model that answered.
        signature: Name of the signature that answered; it takes serialized Examples.
        rows: Serialized Examples.
        answers: For each row, the outputs of the signature for a batch of this row alone.
        graph: Folder of the TransformGraph by which the training rows were transformed.
        tolerance: Maximum allowed difference, relative for values above 1.
    """
    rows, answers = rows[:_MOST_ROWS], answers[:_MOST_ROWS]
    features = [*_training_features(graph, rows)] if graph else []
    found = None
    if features and PREDICT_FEATURES in served.signatures:
        taken = served.signatures[PREDICT_FEATURES].inputs
        if set(taken) <= features[0].keys():
            given = ({name: row[name] for name in taken} for row in features)
            wanted = [served.run(PREDICT_FEATURES, values) for values in given]
            found = _first_difference(answers, wanted, tolerance)
            if found is None:
                return None
    if optimised := _optimiser_difference(served.folder, signature, rows, answers, tolerance):
        return optimised
    if found is None:
        return None
    number, text = found
    reason = _feature_skew(served, rows[number], features[number], tolerance)
    return (
        f"row {number}: {text} of the model on the row as it is transformed for training; "
        f"{reason or 'the signature computes something else than the model'}"
    )


def _optimiser_difference(
    model: str, signature: str, rows: Sequence[bytes], answers: Sequence[Values], tolerance: float
) -> str | None:
    """Compares the answers with those without TensorFlow's graph optimiser; costs 1 s of CPU."""
    answer_to = tf.saved_model.load(model).signatures[signature]

    def answers_in_python() -> list[Values]:
        found = (answer_to(tf.constant([row])) for row in rows)
        return [{name: value.numpy() for name, value in of.items()} for of in found]

    with _no_optimiser():
        plain = answers_in_python()
    ways = {"": answers, " where Python loads it": answers_in_python()}
    for where, answered in ways.items():
        if found := _first_difference(answered, plain, tolerance):
            number, text = found
            return f"row {number}: {text} without TensorFlow's graph optimiser{where}; {_FAULT}"
    return None


def _first_difference(
    answers: Sequence[Values], wanted: Sequence[Values], tolerance: float
) -> tuple[int, str] | None:
    for number, pair in enumerate(zip(answers, wanted, strict=True)):
        if found := _difference(*pair, tolerance):
            return number, found
    return None


def _training_features(graph: str, rows: Sequence[bytes]) -> Iterator[dict[str, np.ndarray]]:
    """Yields each row's transformed features, in the form that Pack and the training input use."""
    transform = transform_of(graph, load_transform(f"{graph}/transform_fn"))
    for row in rows:
        yield {name: _dense(value) for name, value in transform([row]).items()}


def _dense(value: Any) -> np.ndarray:
    if isinstance(value, tf.RaggedTensor):
        dense = value.to_tensor().numpy()
        return dense if dense.size else np.zeros([1] * dense.ndim, dense.dtype)
    return np.asarray(tf.sparse.to_dense(value) if isinstance(value, tf.SparseTensor) else value)


@contextmanager
def _no_optimiser() -> Iterator[None]:
    """Turns TensorFlow's graph optimiser off for functions; sessions have their own options."""
    name = "disable_meta_optimizer"
    before = tf.config.optimizer.get_experimental_options().get(name, False)
    tf.config.optimizer.set_experimental_options({name: True})
    try:
        yield
    finally:
        tf.config.optimizer.set_experimental_options({name: before})


def _feature_skew(served: Served, row: bytes, features: Values, tolerance: float) -> str | None:
    if _FEATURES not in served.signatures:
        return None
    [name] = served.signatures[_FEATURES].inputs
    own = served.run(_FEATURES, {name: [row]})
    common = {name: value for name, value in features.items() if name in own}
    found = _difference({name: own[name] for name in common}, common, tolerance, "feature")
    return found and f"{found} in training: export the model with the TransformGraph of this run"


def _difference(
    answer: Values, wanted: Values, tolerance: float, what: str = "output"
) -> str | None:
    for name in sorted(wanted):
        got, expected = np.asarray(answer.get(name)), np.asarray(wanted[name])
        if got.shape == expected.shape:
            if expected.dtype.kind not in "fiu":
                apart = got != expected
            else:
                least = tolerance * np.maximum(1, np.abs(expected.astype(np.float64)))
                apart = ~(np.abs(got.astype(np.float64) - expected) <= least)
                apart &= ~(np.isnan(got) & np.isnan(expected))
            if not apart.any():
                continue
            got, expected = got[apart][0], expected[apart][0]
        return f"{what} {name!r} is {_brief(got)}, and {_brief(expected)}"
    return None


def _brief(value: Any) -> str:
    array = np.asarray(value)
    if array.ndim:
        return f"of shape {array.shape}"
    return f"{value:.6g}" if array.dtype.kind == "f" else str(value)
