"""Assigns the rows of a batch to TFMA's slices."""

import math
from collections.abc import Callable
from itertools import chain, islice, repeat
from typing import Any

import numpy as np
import pyarrow as pa
from tensorflow_model_analysis.proto import config_pb2
from tensorflow_model_analysis.slicer import slicer_lib

SliceKey = tuple[tuple[str, str | int | float], ...]
# The values of a row in one column: none, one, or several.
Values = tuple[str | bytes | int | float, ...]


def values_of_tensor(array: np.ndarray) -> list[Values]:
    """Returns the values of each row of a dense tensor [n, ...]."""
    return [*map(tuple, array.reshape(len(array), -1).tolist())]


def values_of_lists(column: pa.Array) -> list[Values]:
    """Returns the values of each row of an Arrow column of lists; null is a row without values."""
    values = iter(column.flatten().to_pylist())
    lengths = column.value_lengths().fill_null(0).to_pylist()
    return [tuple(islice(values, length)) for length in lengths]


class Slicer:
    """Assigns rows to slices; calls TFMA once for each combination of values."""

    def __init__(self, eval_config: config_pb2.EvalConfig) -> None:
        specs = list(eval_config.slicing_specs) or [config_pb2.SlicingSpec()]
        self._specs = [slicer_lib.SingleSliceSpec(spec=spec) for spec in specs]
        self._names = [[*spec.feature_keys, *spec.feature_values] for spec in specs]
        self._known: list[dict[tuple[Values, ...], list[int]]] = [{} for _ in specs]
        self._numbers: dict[SliceKey, int] = {}

    @property
    def keys(self) -> list[SliceKey]:
        """TFMA's slice keys, by slice number."""
        return list(self._numbers)

    def members(
        self, rows: int, column: Callable[[str], list[Values] | None]
    ) -> tuple[np.ndarray, np.ndarray]:
        """Returns row indices and slice numbers, int64 [m] each, ordered by row.

        A row occurs once for each of its slices. `column(name)` returns the values of each row in a
        column, or None if the batch does not have the column.
        """
        columns = {name: column(name) for names in self._names for name in names}
        pairs = [np.zeros(0, np.int64)]
        for index, names in enumerate(self._names):
            held = [values for name in names if (values := columns[name]) is not None]
            if len(held) == len(names):
                each = zip(*held, strict=True) if held else repeat((), rows)
                slices = [self._slices(index, values) for values in each]
                member = np.repeat(np.arange(rows), [len(numbers) for numbers in slices])
                pairs.append(member << 32 | np.array([*chain(*slices)], np.int64))
        found = np.unique(np.concatenate(pairs))  # two specs can lead to the same slice
        return found >> 32, found & 0xFFFFFFFF

    def _slices(self, index: int, values: tuple[Values, ...]) -> list[int]:
        known = self._known[index]
        if values not in known:  # true for NaN too, because NaN != NaN
            values = tuple(tuple(math.nan if v != v else v for v in held) for held in values)
        if values not in known:
            row: dict[str, Any] = {
                name: np.array(held, dtype=object)  # a bytes dtype would drop trailing zero bytes
                for name, held in zip(self._names[index], values, strict=True)
                if held
            }
            keys = slicer_lib.get_slices_for_features_dicts([], row, [self._specs[index]])
            known[values] = [self._numbers.setdefault(key, len(self._numbers)) for key in keys]
        return known[values]
