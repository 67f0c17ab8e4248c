"""The columns that moved a prediction: what changes if one of them has a typical value instead.

In: batches of columns as tensors. Out: a text for each row, `income=900 (-0.31), age=71 (+0.08)`,
the difference that this value makes to the probability of the predicted class, or to the predicted
number. It costs a call of the model for each of its columns.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.components.errors import DataError
from penstock.components.trainer.served_columns import MISSING_INT
from penstock.pipelines.prediction.model import PushedModel

_MOST_COLUMNS = 3
_LEAST_SHARE = 0.001  # of the predictions' spread; a smaller effect is not worth a word

Array = npt.NDArray[Any]


class Explainer:
    """Explains predictions against the typical row of the first batch.

    That has the median of numbers and the most frequent text; lists are left out. `names` has the
    data's own name of each column of the model.
    """

    def __init__(
        self, model: PushedModel, columns: Mapping[str, Any], names: Mapping[str, str]
    ) -> None:
        values = {name: value.numpy() for name, value in columns.items() if name not in model.lists}
        if len(next(iter(values.values()), ())) < 2:
            raise DataError("--explain compares rows with a typical one: give at least two rows")
        found = {name: _typical(value) for name, value in values.items()}
        self._model, self._names = model, names
        self._typical = {name: value for name, value in found.items() if value is not None}

    def because(self, columns: Mapping[str, Any]) -> dict[str, pa.Array]:
        """Returns the column `because`, or `price/because` and its like for several targets."""
        import tensorflow as tf

        before = self._model.outputs(columns)
        effects: dict[str, list[Array]] = {}
        for name, typical in self._typical.items():
            replaced = tf.fill(columns[name].shape, tf.constant(typical, columns[name].dtype))
            after = self._model.outputs({**columns, name: replaced})
            for prefix, change in _changes(before, after):
                effects.setdefault(prefix, []).append(change)
        values = [columns[name].numpy() for name in self._typical]
        return {
            f"{prefix}because": pa.array(self._texts(np.stack(changes), values))
            for prefix, changes in effects.items()
        }

    def _texts(self, changes: Array, values: list[Array]) -> list[str]:
        names = [self._names[served] for served in self._typical]
        least = _LEAST_SHARE * float(np.abs(changes).max())
        order = np.argsort(-np.abs(changes), axis=0, kind="stable")[:_MOST_COLUMNS]
        return [
            ", ".join(
                f"{names[at]}={_text(values[at][row])} ({changes[at, row]:+.3g})"
                for at in order[:, row]
                if abs(changes[at, row]) > least
            )
            for row in range(changes.shape[1])
        ]


def _typical(values: Array) -> Any:
    if values.dtype == object:
        texts, counts = np.unique(values[values != b""], return_counts=True)
        return texts[np.argmax(counts)] if len(texts) else None
    there = values[~np.isnan(values)] if values.dtype.kind == "f" else values[values != MISSING_INT]
    return np.sort(there)[len(there) // 2] if len(there) else None


def _changes(before: Mapping[str, Array], after: Mapping[str, Array]) -> list[tuple[str, Array]]:
    """Returns by prefix what the replaced values added to the class that was said, or number."""
    found = []
    for name, value in before.items():
        prefix, _, part = name.rpartition("/")
        prefix += "/" * bool(prefix)
        if part == "probabilities":
            said = before[f"{prefix}label"].reshape(-1, 1)
            found.append((prefix, np.take_along_axis(value - after[name], said, 1)[:, 0]))
        elif part == "value":
            found.append((prefix, value - after[name]))
    return found


def _text(value: Any) -> str:
    if isinstance(value, bytes):
        return value.decode(errors="replace") or "nothing"
    is_missing = np.isnan(value) if isinstance(value, np.floating) else value == MISSING_INT
    return "nothing" if is_missing else f"{value:.6g}"
