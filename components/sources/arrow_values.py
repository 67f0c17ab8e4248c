"""Converts Arrow values of any type to the three kinds that a `tf.train.Feature` can hold.

docs/data_types.md has the mapping and its losses. Columns are converted as a whole; only values
that do not fit are examined one by one, to find the reason for each.
"""

import re
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from penstock.components.sources.base import NUMBERS, Column
from penstock.components.sources.batches import Faults
from penstock.components.sources.tokens import INT64_MAX, beyond_float32, beyond_int64, finite_or
from penstock.components.tfrecord.feature_kind import FeatureKind

# Factor and divisor from an Arrow unit to microseconds.
_TO_MICROSECONDS = {"s": (10**6, 1), "ms": (10**3, 1), "us": (1, 1), "ns": (1, 10**3)}
_UNIT = re.compile(r"\[(s|ms|us|ns)\b")
# Below this limit, all whole numbers are exact in float64. A float64 of 2**53 may have been rounded
# from 2**53 + 1.
_EXACT_IN_FLOAT64 = 2**53


def feature_type(arrow_type: pa.DataType) -> tuple[FeatureKind | None, bool] | None:
    """Returns (kind, is_list) of the feature that holds `arrow_type`; None if no feature can.

    The kind is None for Arrow's null type, which has no values.
    """
    is_list, value_type = _is_list(arrow_type), _value_type(arrow_type)
    if types.is_null(value_type):
        return None, is_list
    for kind, holds in _HOLDS.items():
        if any(test(value_type) for test in holds):
            return kind, is_list
    return None


def fits(column: Column, arrow_type: pa.DataType) -> bool:
    """Returns whether `to_feature` can convert values of `arrow_type` to the kind of `column`.

    Integers fit into FLOAT columns. Floats fit into INT columns, since pandas stores integers with
    nulls as floats; a fraction is then a fault. Arrow's null type fits into every column.
    """
    found = feature_type(arrow_type)
    if found is None:
        return False
    kind, is_list = found
    if kind is None:
        return column.is_list or not is_list
    value_type = _value_type(arrow_type)
    plain_number = types.is_integer(value_type) or types.is_floating(value_type)
    same_kind = kind is column.kind or (plain_number and column.kind in NUMBERS)
    return same_kind and is_list == column.is_list


def number_unit(arrow_type: pa.DataType) -> str | None:
    """Returns the unit of a numeric type, or of a list of it: `date`, `timestamp`, ... or `number`.

    Values of the same unit are comparable: dates count days, and all times count microseconds. The
    result is None for a type that is not numeric.
    """
    value_type = _value_type(arrow_type)
    for name, holds in _UNITS.items():
        if holds(value_type):
            return name
    is_number = types.is_boolean(value_type) or types.is_integer(value_type)
    return "number" if is_number or any(h(value_type) for h in _HOLDS[FeatureKind.FLOAT]) else None


_UNITS: dict[str, Callable[[pa.DataType], bool]] = {
    "date": types.is_date,
    "time": types.is_time,
    "timestamp": types.is_timestamp,
    "duration": types.is_duration,
}
_HOLDS: dict[FeatureKind, tuple[Callable[[pa.DataType], bool], ...]] = {
    FeatureKind.INT: (types.is_boolean, types.is_integer, *_UNITS.values()),
    FeatureKind.FLOAT: (types.is_floating, types.is_decimal),
    FeatureKind.BYTES: (
        types.is_string,
        types.is_large_string,
        types.is_binary,
        types.is_large_binary,
        types.is_fixed_size_binary,
    ),
}


def _is_list(arrow_type: pa.DataType) -> bool:
    return (
        types.is_list(arrow_type)
        or types.is_large_list(arrow_type)
        or types.is_fixed_size_list(arrow_type)
    )


def _value_type(arrow_type: pa.DataType) -> pa.DataType:
    value_type = arrow_type.value_type if _is_list(arrow_type) else arrow_type
    return value_type.value_type if types.is_dictionary(value_type) else value_type


def to_feature(array: pa.Array, column: Column, non_finite: str) -> tuple[pa.Array, Faults]:
    """Returns the values in the column's type, null where one does not fit, and the faults."""
    if types.is_null(array.type):
        return pa.nulls(len(array), column.arrow_type), {}
    if _is_list(array.type):
        return _lists(array, column, non_finite)
    if types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if column.kind is FeatureKind.BYTES:
        if types.is_fixed_size_binary(array.type):
            # Arrow 10 crashes when it casts a slice without nulls, so the slice is copied.
            array = array.take(pa.array(np.arange(len(array))))
        return array.cast(pa.binary()), {}
    if column.kind is FeatureKind.INT:
        if types.is_floating(array.type):
            return _whole_numbers(array, non_finite)
        return _integers(array)
    return _floats(array, non_finite)


def _lists(array: pa.Array, column: Column, non_finite: str) -> tuple[pa.Array, Faults]:
    """Converts lists; a list is at fault if it has a null or a value that does not fit."""
    lengths = pc.fill_null(pc.list_value_length(array), 0).to_numpy(zero_copy_only=False)
    ends = np.cumsum(lengths, dtype=np.int64)
    # Arrow 10 cannot flatten fixed-size lists that are all null.
    children = array.flatten() if array.null_count < len(array) else array.values[:0]
    values, child_faults = to_feature(children, replace(column, is_list=False), non_finite)
    faults: Faults = {}
    for child in np.flatnonzero(values.is_null().to_numpy(zero_copy_only=False)).tolist():
        row = int(np.searchsorted(ends, child, side="right"))
        at = child - int(ends[row] - lengths[row])
        reason = child_faults.get(child, "null within a list, which no feature can hold")
        faults.setdefault(row, f"value {at + 1} of the list: {reason}")
    missing = array.is_null().to_numpy(zero_copy_only=False)
    starts = np.concatenate([[0], ends]).astype(np.int32)
    offsets = pa.array(starts, pa.int32(), mask=np.append(missing, [False]))
    return pa.ListArray.from_arrays(offsets, values), faults


def _integers(array: pa.Array) -> tuple[pa.Array, Faults]:
    """Returns int64 from booleans, integers, dates (in days) and times (in microseconds)."""
    if types.is_int64(array.type):
        return array, {}
    faults: Faults = {}
    if types.is_uint64(array.type):
        large = pc.greater(array, pa.scalar(INT64_MAX, pa.uint64()))
        faults = {row: beyond_int64(str(array[row])) for row in _true_rows(large)}
        array = pc.if_else(large, pa.scalar(None, array.type), array)
    if types.is_date(array.type):
        array = array.cast(pa.date32()).cast(pa.int32())
    elif types.is_temporal(array.type):
        return _microseconds(array)
    return array.cast(pa.int64()), faults


def _whole_numbers(array: pa.Array, non_finite: str) -> tuple[pa.Array, Faults]:
    """Returns int64 from floats, which must be whole and within 2**53."""
    missing = array.is_null().to_numpy(zero_copy_only=False)
    numbers = pc.fill_null(_full_floats(array), 0).to_numpy(zero_copy_only=False)
    fits = (np.abs(numbers) < _EXACT_IN_FLOAT64) & (np.floor(numbers) == numbers)
    faults: Faults = {}
    for row in np.flatnonzero(~fits).tolist():
        number = float(numbers[row])
        if np.isfinite(number) or non_finite != "null":
            faults[row] = f"{number} is not a whole number within 2**53; expected an integer"
    whole = np.where(fits, numbers, 0).astype(np.int64)
    return pa.array(whole, pa.int64(), mask=missing | ~fits), faults


def _full_floats(array: pa.Array) -> pa.Array:
    """Widens half floats, which Arrow 10 cannot cast."""
    if not types.is_float16(array.type):
        return array
    missing = array.is_null().to_numpy(zero_copy_only=False)
    wide = array.to_numpy(zero_copy_only=False).astype(np.float32)
    return pa.array(wide, pa.float32(), mask=missing)


def _microseconds(array: pa.Array) -> tuple[pa.Array, Faults]:
    """Returns int64 microseconds; nanoseconds are rounded down."""
    unit = _UNIT.findall(str(array.type))[0]  # In Arrow 10, time types have no attribute `unit`.
    factor, divisor = _TO_MICROSECONDS[unit]
    raw = array.cast(pa.int32()) if types.is_time32(array.type) else array
    numbers = pc.fill_null(raw.cast(pa.int64()), 0).to_numpy(zero_copy_only=False)
    limit = INT64_MAX // factor
    large = (numbers > limit) | (numbers < -limit) if factor > 1 else np.zeros(len(array), np.bool_)
    missing = array.is_null().to_numpy(zero_copy_only=False)
    faults = {
        row: f"{numbers[row]} {unit} is beyond int64 in microseconds (292,000 years); correct it, "
        "or write the column as whole numbers"
        for row in np.flatnonzero(large & ~missing).tolist()
    }
    scaled = np.where(large, 0, numbers) * factor // divisor
    return pa.array(scaled, pa.int64(), mask=missing | large), faults


def _floats(array: pa.Array, non_finite: str) -> tuple[pa.Array, Faults]:
    """Returns float32; finite values beyond its range are faults.

    NaN and infinity are faults too if `non_finite` is `reject`.
    """
    is_decimal = types.is_decimal(array.type)
    array = array.cast(pa.float64()) if is_decimal else _full_floats(array)
    narrow = array.cast(pa.float32(), safe=False)
    # np.isfinite takes a third of the time of pc.is_finite, which matters in batches of a thousand
    # rows.
    if np.isfinite(narrow.fill_null(0).to_numpy(zero_copy_only=False)).all():
        return narrow, {}
    faults: Faults = {}
    nulls = np.zeros(len(array), np.bool_)
    for row in _true_rows(pc.invert(pc.is_finite(narrow))):
        number = array[row].as_py()
        try:
            if np.isfinite(number):
                raise ValueError(beyond_float32(str(number)))
            nulls[row] = finite_or(number, non_finite) is None
        except ValueError as error:
            nulls[row], faults[row] = True, str(error)
    return pc.if_else(pa.array(nulls), pa.scalar(None, pa.float32()), narrow), faults


def _true_rows(mask: pa.Array) -> list[int]:
    return np.flatnonzero(pc.fill_null(mask, False).to_numpy(zero_copy_only=False)).tolist()
