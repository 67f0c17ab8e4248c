"""Assigns the rows of a batch to TFMA's slices."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from tensorflow_model_analysis.proto import config_pb2
from tensorflow_model_analysis.slicer import slicer_lib

SliceKey = tuple[tuple[str, str | int | float], ...]
Values = tuple[str | bytes | int | float, ...]


@dataclass(frozen=True)
class Coded:
    """A column of codes; a row may have no value, one, or several."""

    codes: np.ndarray  # index into `values` of each row's values, int64 [n]
    values: list[Values]


def coded_array(array: np.ndarray) -> Coded:
    """Returns the codes of a dense tensor [n, ...], whose rows have equal numbers of values."""
    flat = array.reshape(len(array), -1)
    values, codes = np.unique(flat, return_inverse=True)
    if flat.shape[1] == 1:
        return Coded(codes.reshape(-1), [(value,) for value in values.tolist()])
    rows, codes = np.unique(codes.reshape(flat.shape), axis=0, return_inverse=True)
    return Coded(codes.reshape(-1), [tuple(values[row].tolist()) for row in rows])


def coded_list(column: pa.Array) -> Coded:
    """Returns the codes of an Arrow column of lists; null is a row without values."""
    lengths = np.asarray(column.value_lengths().fill_null(0))
    encoded = column.flatten().dictionary_encode()
    inner = np.asarray(encoded.indices)
    distinct = encoded.dictionary.to_pylist()
    values: list[Values] = [(), *((value,) for value in distinct)]
    codes = np.zeros(len(lengths), np.int64)
    starts = np.cumsum(lengths) - lengths
    single = lengths == 1
    codes[single] = inner[starts[single]] + 1
    several: dict[Values, int] = {}
    for row in np.flatnonzero(lengths > 1):
        held = tuple(distinct[i] for i in inner[starts[row] : starts[row] + lengths[row]])
        codes[row] = several.setdefault(held, len(values))
        if codes[row] == len(values):
            values.append(held)
    return Coded(codes, values)


def coded_values(column: pa.Array) -> Coded:
    """Returns the codes of an Arrow column of single values; null is a row without a value."""
    encoded = column.dictionary_encode()
    codes = encoded.indices.cast(pa.int64()).fill_null(-1).to_numpy() + 1
    return Coded(codes, [(), *((value,) for value in encoded.dictionary.to_pylist())])


class Slicer:
    """Assigns rows to slices; asks TFMA once for each combination of values."""

    def __init__(self, eval_config: config_pb2.EvalConfig) -> None:
        specs = list(eval_config.slicing_specs) or [config_pb2.SlicingSpec()]
        self._specs = [slicer_lib.SingleSliceSpec(spec=spec) for spec in specs]
        self._names = [[*spec.feature_keys, *spec.feature_values] for spec in specs]
        self._known: list[dict[tuple[Values, ...], list[int]]] = [{} for _ in specs]
        self._numbers: dict[SliceKey, int] = {}
        self.keys: list[SliceKey] = []  # TFMA's slice keys, by slice number

    @property
    def names(self) -> set[str]:
        return {name for names in self._names for name in names}

    def members(
        self, rows: int, column: Callable[[str], Coded | None]
    ) -> tuple[np.ndarray, np.ndarray]:
        """Returns row indices and slice numbers, int64 [m] each, ordered by row.

        A row occurs once for each slice that it is in. `column(name)` returns a column of `names`.
        """
        columns = {name: column(name) for name in self.names}
        pairs = [self._of_spec(index, rows, columns) for index in range(len(self._specs))]
        found = np.unique(np.concatenate(pairs))  # two specs can lead to the same slice
        return found >> 32, found & 0xFFFFFFFF

    def _of_spec(self, index: int, rows: int, columns: dict[str, Coded | None]) -> np.ndarray:
        """Returns `row << 32 | slice number` of the rows in slices of one spec."""
        held = [columns[name] for name in self._names[index]]
        present = [column for column in held if column is not None]
        if len(present) < len(held):
            return np.zeros(0, np.int64)
        combined, first = np.zeros(rows, np.int64), np.zeros(1, np.int64)
        for column in present:
            both = combined * len(column.values) + column.codes
            _, first, combined = np.unique(both, return_index=True, return_inverse=True)
        slices = [
            self._slices(index, tuple(column.values[column.codes[row]] for column in present))
            for row in first
        ]
        counts = np.array([len(found) for found in slices])[combined]
        pairs = []
        for place in range(max(map(len, slices))):
            numbers = np.array([found[place] if place < len(found) else 0 for found in slices])
            member = np.flatnonzero(counts > place)
            pairs.append(member << 32 | numbers[combined[member]])
        return np.concatenate([np.zeros(0, np.int64), *pairs])

    def _slices(self, index: int, values: tuple[Values, ...]) -> list[int]:
        known = self._known[index]
        if values not in known:
            row: dict[str, Any] = {
                name: np.array(held, dtype=object)  # a bytes dtype would drop trailing zero bytes
                for name, held in zip(self._names[index], values, strict=True)
                if held
            }
            keys = slicer_lib.get_slices_for_features_dicts([], row, [self._specs[index]])
            known[values] = [self.number(key) for key in keys]
        return known[values]

    def number(self, key: SliceKey) -> int:
        """Returns the number of a slice, which may be new."""
        if key not in self._numbers:
            self._numbers[key] = len(self.keys)
            self.keys.append(key)
        return self._numbers[key]
