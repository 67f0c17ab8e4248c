"""Dataclasses made of what JSON holds, by the types that their fields state."""

import types
from collections.abc import Mapping, Sequence
from dataclasses import is_dataclass
from functools import lru_cache
from typing import Any, TypeVar, Union, cast, get_args, get_origin, get_type_hints

T = TypeVar("T")

_PLAIN: dict[Any, tuple[Any, str]] = {
    int: (int, "a whole number, 0 or more"),
    float: ((int, float), "a number"),
    str: (str, "text"),
    bool: (bool, "true or false"),
}


def from_plain(kind: type[T], raw: Mapping[str, Any]) -> T:
    """A dataclass, its lists as tuples, of what `json` reads of its `asdict`.

    Whole numbers are counts, sizes and seeds: none is below 0.

    Raises:
        TypeError: A value has another type, is missing or unknown; names it.
    """
    hints = _hints(cast(Any, kind))
    # What is unknown goes on, for the class to refuse by its name.
    return kind(**{n: _made(hints.get(n, Any), value, repr(n)) for n, value in raw.items()})


@lru_cache
def _hints(kind: Any) -> dict[str, Any]:
    return get_type_hints(kind)


def _made(hint: Any, value: Any, name: str, or_null: str = "") -> Any:
    if hint in _PLAIN:  # first, as most are: a manifest may have 100,000 shards
        fitting, expected = _PLAIN[hint]
        is_flag = isinstance(value, bool) and hint is not bool  # which to Python is a number
        if is_flag or not isinstance(value, fitting) or (hint is int and value < 0):
            raise TypeError(f"{name} is {value!r}, expected {expected}{or_null}")
        return value
    origin, of = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return None if value is None else _made(of[0], value, name, " or null")
    if is_dataclass(hint):
        return from_plain(cast(type, hint), value)
    if origin in (tuple, Sequence):
        if not isinstance(value, list | tuple):  # else an empty object would pass for none
            raise TypeError(f"{name} is {value!r}, expected a list{or_null}")
        return tuple(_made(of[0], part, name) for part in value)
    if origin is Mapping:
        if not isinstance(value, dict):
            raise TypeError(f"{name} is {value!r}, expected an object{or_null}")
        return {key: _made(of[1], part, f"{name} of {key!r}") for key, part in value.items()}
    return value
