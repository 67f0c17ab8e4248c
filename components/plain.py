"""Converts between dataclasses and values of JSON, YAML, texts and flags.

`from_plain`, `override`, `to_json` and `from_json` are for options, which people write;
`from_record` is for files that Penstock has written. Messages name a value by its dotted path, such
as `train.early_stop.patience_epochs` or `splits.train[0].bytes`.
"""

import dataclasses
import functools
import json
import types
import typing
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from penstock.components.errors import UsageError, nearest

T = TypeVar("T")

_EXPECTED: dict[Any, str] = {
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    str: "a text",
}


def from_plain(kind: type[T], values: Mapping[str, Any], *, where: str = "") -> T:
    """Makes an instance of a dataclass; a field that is not in `values` gets its default.

    Args:
        kind: The dataclass.
        values: Field values by name; a mapping for a nested dataclass, a list for a tuple.
        where: Path of `values` in an outer mapping; messages put it before the name of a field.

    Raises:
        UsageError: A field does not exist, a value has the wrong type, or the class rejects it.
    """
    return _build(kind, values, where)


def override(config: T, changes: Mapping[str, Any], *, where: str = "") -> T:
    """Returns a copy of a dataclass with some fields changed; raises UsageError like `from_plain`.

    A mapping changes fields of a nested dataclass or entries of a dict; null removes an entry.
    """
    return _build(type(config), changes, where, config)


def from_record(kind: type[T], values: Mapping[str, Any]) -> T:
    """Makes a dataclass from JSON that Penstock wrote; raises UsageError like `from_plain`.

    A value must have the type of its field (a number is not a text). Integers must be 0 or more,
    because they are counts, sizes and seeds.
    """
    return _build(kind, values, "", exact=True)


def to_json(options: Any) -> str:
    """Returns a dataclass as JSON text with sorted keys, so equal options have equal texts."""
    return json.dumps(dataclasses.asdict(options), sort_keys=True, default=str)


def from_json(kind: type[T], text: str) -> T:
    """Makes a dataclass from a text with a JSON object; raises UsageError like `from_plain`."""
    try:
        values = json.loads(text)
    except json.JSONDecodeError as error:
        raise UsageError(f"not JSON: {error}") from error
    if not isinstance(values, dict):
        raise UsageError(f"expected a JSON object of options, got {text!r}")
    return from_plain(kind, values)


def _build(
    kind: type[T], values: Mapping[str, Any], path: str, current: Any = None, exact: bool = False
) -> T:
    hints = _hints(typing.cast(Any, kind))
    converted = {}
    for name, value in values.items():
        below = f"{path}.{name}" if path else name
        if name not in hints:
            raise UsageError(f"{below}: no such option; {nearest(name, hints)}")
        converted[name] = _convert(
            value, hints[name], below, getattr(current, name, None) if current else None, exact
        )
    make: Any = functools.partial(dataclasses.replace, current) if current is not None else kind
    try:
        return typing.cast(T, make(**converted))
    except (TypeError, ValueError) as error:
        raise UsageError(f"{path}: {error}" if path else str(error)) from error


@functools.lru_cache
def _hints(kind: Any) -> dict[str, Any]:
    hints = typing.get_type_hints(kind)
    return {field.name: hints[field.name] for field in dataclasses.fields(kind) if field.init}


def _convert(value: Any, hint: Any, path: str, current: Any = None, exact: bool = False) -> Any:
    if hint in _EXPECTED:  # first, for speed: a manifest may list 100,000 shards
        return _simple(value, hint, path, exact)
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return _union(value, arguments, path, current, exact)
    if origin is typing.Literal:
        if value in arguments:
            return value
        raise UsageError(f"{path}: must be one of {', '.join(map(str, arguments))}, got {value!r}")
    if dataclasses.is_dataclass(hint):
        if isinstance(value, typing.cast(type, hint)):
            return value
        if not isinstance(value, Mapping):
            raise UsageError(
                f"{path}: expected a group of options, got {value!r}; set {path}.OPTION"
            )
        kind: Any = type(current) if current else hint
        return _build(kind, value, path, current, exact)
    if origin in (tuple, list, Sequence):
        made: Any = list if origin is list else tuple
        return made(_items(value, arguments, path, exact))
    if origin in (dict, Mapping):
        return _entries(value, arguments[1], path, current or {}, exact)
    if hint is Any:
        return value
    if origin is not None or not isinstance(hint, type):
        raise UsageError(f"{path}: its type, {hint}, cannot be set from a text or a file")
    return _simple(value, hint, path, exact)


def _simple(value: Any, hint: type, path: str, exact: bool) -> Any:
    found = value if exact else _read(value, hint)
    is_flag = isinstance(found, bool) and hint is not bool  # in Python, a bool is an int
    fits = isinstance(found, (int, float) if hint is float else hint) and not is_flag
    if fits and not (exact and hint is int and found < 0):
        return found
    expected = _EXPECTED.get(hint, hint.__name__) + (", 0 or more" if exact and hint is int else "")
    raise UsageError(f"{path}: expected {expected}, got {value!r}")


def _read(value: Any, hint: type) -> Any:
    """Converts numbers, texts and paths from the forms that people write in YAML."""
    if isinstance(value, bool):
        return value
    if hint is float and isinstance(value, int | str):
        try:
            return float(value)  # YAML reads 1e-3 as text
        except ValueError:
            return value
    if hint is Path and isinstance(value, str):
        return Path(value)
    return str(value) if hint is str and isinstance(value, int | float) else value


def _union(value: Any, arguments: tuple[Any, ...], path: str, current: Any, exact: bool) -> Any:
    if value is None and type(None) in arguments:
        return None
    *others, last = [argument for argument in arguments if argument is not type(None)]
    for hint in others:
        try:
            return _convert(value, hint, path, current, exact)
        except UsageError:
            continue
    return _convert(value, last, path, current, exact)


def _items(value: Any, arguments: tuple[Any, ...], path: str, exact: bool) -> list[Any]:
    if not isinstance(value, list | tuple):  # an empty object must not count as an empty list
        raise UsageError(f"{path}: expected a list like [1, 2], got {value!r}")
    # `tuple[int, str]` has one type per item; `tuple[int, ...]` and `list[int]` have one for all.
    each = arguments[:1] * len(value) if len(arguments) == 1 or ... in arguments else arguments
    if len(each) != len(value):
        raise UsageError(f"{path}: expected {len(each)} values, got {len(value)}")
    pairs = zip(value, each, strict=True)
    return [
        _convert(item, hint, f"{path}[{i}]", exact=exact) for i, (item, hint) in enumerate(pairs)
    ]


def _entries(
    value: Any, hint: Any, path: str, current: Mapping[str, Any], exact: bool
) -> dict[str, Any]:
    """Returns the entries of `current` updated by those of `value`; null removes an entry."""
    if not isinstance(value, Mapping):
        raise UsageError(f"{path}: expected an object like {{name: value}}, got {value!r}")
    given = {
        key: _convert(item, hint, f"{path}.{key}", exact=exact)
        for key, item in value.items()
        if exact or item is not None
    }
    return {**{key: item for key, item in current.items() if key not in value}, **given}
