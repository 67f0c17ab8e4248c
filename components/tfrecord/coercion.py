"""Python, NumPy and tensor values in; one of the three kinds of a `tf.train.Feature` out.

| value | becomes |
|---|---|
| `bytes`, `bytearray`, `memoryview` | bytes |
| `str` | bytes, UTF-8 |
| `bool`, `int`, NumPy integers and bools | int64; outside it is an error |
| `float`, NumPy floats, bfloat16 | float32, to nearest; a finite value beyond it is an error |
| NaN, inf | kept |
| a member of an `Enum` (`IntEnum`, `StrEnum`, `Flag`, ...) | its `value`, by these rules |
| a NumPy scalar, 0-D array, 0-D tensor | as the number or string that it holds |
| list, tuple, range, 1-D array, 1-D eager tensor of these | a list of that kind |
| int and float in one list | float32 |
| nested lists, arrays and eager tensors of rank >= 2 | one bytes value: a serialized tensor |
| an empty list | nothing to tell its kind by: an error unless `kind` says it |
| an empty array or tensor of numbers | the kind of its dtype |
| None | no value |

An error is anything else, by name: mixed strings and numbers, ragged nested lists, None
in a list, sets (they have no order, so equal data would give unequal bytes), symbolic tensors,
dates, complex numbers, dicts. `numpy.bytes_` arrays come without the trailing NUL bytes
that NumPy drops from them; use a list or an object array for binary data.

An array or tensor of rank >= 2 keeps its dtype when serialized; nested lists become int64,
float32 or string. Read either back with `tf.io.parse_tensor(value, out_type)`.
"""

import enum
import math
import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from penstock.components.errors import DataError
from penstock.components.tfrecord.feature_kind import FeatureKind

_INT64 = np.iinfo(np.int64)
_DTYPES = {FeatureKind.INT: np.int64, FeatureKind.FLOAT: np.float32, FeatureKind.BYTES: object}
_SEQUENCES = (list, tuple, range)
_CHOICES = "give bytes, str, bool, int, float, an enum member, or a list, array or tensor of them"


@dataclass(frozen=True)
class Coerced:
    """What a value comes to.

    Attributes:
        kind: The feature's kind.
        values: Its values; Python ints within int64, floats that are float32 exactly, or bytes.
        tensor: In place of values, an array of rank >= 2 to be serialized as one bytes value.
    """

    kind: FeatureKind
    values: list[Any]
    tensor: npt.NDArray[Any] | None = None


def coerce(value: Any, name: str, kind: FeatureKind | None = None) -> Coerced | None:
    """Make one feature's values of a Python, NumPy or tensor value; the table above says how.

    Args:
        value: The value.
        name: The feature's name, for messages.
        kind: The kind that it must have: settles an empty list, and makes ints floats.
            None leaves it to the value.

    Returns:
        The values, or None for None.

    Raises:
        DataError: The value has no place in a feature of that kind; names both.
    """
    where = f"feature {name!r}"
    value = unwrap(value)
    if value is None:
        return None
    coerced = _coerce(value, where, kind)
    if kind is None or kind is coerced.kind:
        return coerced
    if not coerced.values and coerced.tensor is None:  # an empty array takes any kind
        return Coerced(kind, [])
    if kind is FeatureKind.FLOAT and coerced.kind is FeatureKind.INT:
        return Coerced(kind, _float32(np.array(coerced.values, np.float64), where))
    what = (
        "a nested value, which is serialized to BYTES"
        if coerced.tensor is not None
        else (f"{coerced.kind.value} values")
    )
    raise DataError(f"{where}: {what}, but the kind asked for is {kind.value}")


def _coerce(value: Any, where: str, kind: FeatureKind | None) -> Coerced:
    if isinstance(value, np.ndarray) and value.dtype != object:
        if value.ndim >= 2:
            return Coerced(FeatureKind.BYTES, [], value)
        return _from_array(value.reshape(-1), where)
    shape, items = _flatten(value, where)
    if not items:
        if kind is None or len(shape) > 1:
            raise DataError(
                f"{where}: an empty {type(value).__name__} has no kind; say which (kind=, or "
                "kinds= of an Example), or give an empty array with a dtype"
            )
        return Coerced(kind, [])
    flat = _from_items(items, shape, where)
    if len(shape) < 2:
        return flat
    tensor = np.array(flat.values, _DTYPES[flat.kind]).reshape(shape)
    return Coerced(FeatureKind.BYTES, [], tensor)


def unwrap(value: Any) -> Any:
    """The array behind an eager tensor, the value of an enum member; others as they are."""
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, np.generic):
        return value
    # EagerTensor, tf.Variable and keras.Variable; a symbolic tensor has no numpy().
    to_numpy = getattr(value, "numpy", None)
    return to_numpy() if callable(to_numpy) and not isinstance(value, type) else value


def _flatten(value: Any, where: str) -> tuple[tuple[int, ...], list[Any]]:
    """Shape and items of nested sequences and arrays; () and one item of anything else."""
    value = unwrap(value)
    if isinstance(value, np.ndarray):
        if value.dtype != object or value.ndim == 0:
            return value.shape, list(value.reshape(-1))
        value = list(value)
    if not isinstance(value, _SEQUENCES):
        return (), [value]
    parts = [_flatten(item, where) for item in value]
    for index, (shape, _) in enumerate(parts):
        if shape != parts[0][0]:
            raise DataError(
                f"{where}: index 0 has shape {parts[0][0]} and index {index} has {shape}; "
                "nested lists must be rectangular"
            )
    shape = (len(parts), *(parts[0][0] if parts else ()))
    return shape, [item for _, items in parts for item in items]


def _from_items(items: Sequence[Any], shape: tuple[int, ...], where: str) -> Coerced:
    """Coerce scalars one by one and settle on the kind that holds all of them."""
    kinds: dict[FeatureKind, int] = {}
    values = []
    for index, item in enumerate(items):
        kind, value = _scalar(item, _at(where, index, shape))
        kinds.setdefault(kind, index)
        values.append(value)
    if FeatureKind.BYTES in kinds and len(kinds) > 1:
        first, second = sorted(kinds.values())[:2]
        raise DataError(
            f"{where}: {type(items[first]).__name__} at {_index(first, shape)} and "
            f"{type(items[second]).__name__} at {_index(second, shape)}; a feature holds numbers "
            "or strings, convert one"
        )
    if FeatureKind.FLOAT in kinds:
        return Coerced(
            FeatureKind.FLOAT, _float32(np.array(values, np.float64).reshape(shape), where)
        )
    return Coerced(next(iter(kinds)), values)


def _scalar(item: Any, where: str) -> tuple[FeatureKind, int | float | bytes]:
    if isinstance(item, (bytes, bytearray, memoryview)):
        return FeatureKind.BYTES, bytes(item)
    if isinstance(item, str):
        return FeatureKind.BYTES, _utf8(item, where)
    if isinstance(item, (bool, int)):
        return FeatureKind.INT, _int64(item, where)
    if isinstance(item, float):
        return FeatureKind.FLOAT, item
    if isinstance(item, np.generic):
        coerced = _from_array(np.asarray(item).reshape(1), where)
        return coerced.kind, coerced.values[0]
    _refuse(item, where)


def _from_array(array: npt.NDArray[Any], where: str) -> Coerced:
    """Coerce a 1-D array of any dtype but object, without a Python loop for numbers."""
    if array.dtype.kind in "biu":
        return Coerced(FeatureKind.INT, _int64_values(array, where))
    if array.dtype.kind == "f":
        return Coerced(FeatureKind.FLOAT, _float32(array, where))
    if array.dtype.kind == "S":
        return Coerced(FeatureKind.BYTES, array.tolist())
    if array.dtype.kind == "U":
        return Coerced(FeatureKind.BYTES, [_utf8(text, where) for text in array.tolist()])
    # The small types of ml_dtypes, which TensorFlow's tensors come with.
    if array.dtype.name.startswith(("bfloat", "float")):
        return Coerced(FeatureKind.FLOAT, _float32(array.astype(np.float32), where))
    if array.dtype.name.startswith(("int", "uint")):
        return Coerced(FeatureKind.INT, array.astype(np.int64).tolist())
    raise DataError(f"{where}: dtype {array.dtype} has no place in a feature; {_CHOICES}")


def _int64_values(array: npt.NDArray[Any], where: str) -> list[int]:
    if array.dtype == np.uint64 and (array > np.uint64(_INT64.max)).any():
        index = int(np.argmax(array > np.uint64(_INT64.max)))
        _int64(int(array[index]), _at(where, index, array.shape))
    return array.astype(np.int64).tolist()


def _int64(value: int, where: str) -> int:
    number = operator.index(value)
    if not _INT64.min <= number <= _INT64.max:
        raise DataError(
            f"{where}: {_short(number)} is outside int64; make it a float, a str or bytes"
        )
    return int(number)


def _float32(array: npt.NDArray[Any], where: str) -> list[float]:
    with np.errstate(over="ignore"):
        rounded = array.astype(np.float32)
    beyond = np.isinf(rounded) & ~np.isinf(array)
    if beyond.any():
        index = int(np.argmax(beyond))
        raise DataError(
            f"{_at(where, index, array.shape)}: {array.flat[index]!s} is beyond float32 (3.4e38); "
            "scale it, or give inf if that is meant"
        )
    return rounded.reshape(-1).tolist()


def _utf8(text: str, where: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise DataError(f"{where}: {text[:40]!r} is not valid Unicode ({error.reason})") from error


def _refuse(item: Any, where: str) -> NoReturn:
    kind = f"{type(item).__module__}.{type(item).__qualname__}".removeprefix("builtins.")
    if item is None:
        raise DataError(f"{where}: None in a list; leave it out, or make the whole feature None")
    if isinstance(item, (set, frozenset)):
        raise DataError(f"{where}: a {kind} has no order; pass sorted(...) of it")
    if "tensor" in kind.lower():
        raise DataError(f"{where}: {kind} has no value yet; only eager dense tensors have one")
    raise DataError(f"{where}: type {kind} has no place in a feature; {_CHOICES}")


def _at(where: str, index: int, shape: tuple[int, ...]) -> str:
    return where if math.prod(shape) == 1 else f"{where}, {_index(index, shape)}"


def _index(index: int, shape: tuple[int, ...]) -> str:
    if len(shape) < 2:
        return f"index {index}"
    return f"index {tuple(int(i) for i in np.unravel_index(index, shape))}"


def _short(number: int) -> str:
    return str(number) if abs(number) < 10**30 else f"an int of {number.bit_length()} bits"
