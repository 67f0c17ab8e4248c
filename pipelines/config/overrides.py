"""Config dataclasses from mappings, YAML files and `key=value` texts.

A config is a tree of frozen dataclasses. Keys are dotted paths into it
(`train.early_stop.patience_epochs`); a value must be of the field's annotated type.
"""

import dataclasses
import functools
import types
import typing
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import yaml

from penstock.components.errors import UsageError, nearest

Config = TypeVar("Config")


def override(config: Config, changes: Mapping[str, Any], *, where: str = "") -> Config:
    """A copy of a frozen dataclass with some fields changed, which messages call `where`.

    A value that is a mapping changes fields of a nested dataclass.

    Raises:
        UsageError: A field does not exist, a value has the wrong type or is refused.
    """
    return _build(type(config), changes, where, current=config)


def from_mapping(
    config_type: type[Config], values: Mapping[str, Any], *, where: str = ""
) -> Config:
    """A config of that type; what `values` does not say has its default."""
    return _build(config_type, values, where, current=None)


def load_overrides(file: Path | None, assignments: Sequence[str]) -> dict[str, Any]:
    """The changes that a YAML file and, after it, `key=value` texts ask for, as a tree.

    Raises:
        UsageError: The file cannot be read or is no mapping, or a text is no `key=value`.
    """
    changes = _load_yaml(file) if file else {}
    for assignment in assignments:
        key, equals, text = assignment.partition("=")
        if not equals or not all(key.split(".")):
            raise UsageError(f"--set takes key=value, got {assignment!r}")
        _put(changes, key, _yaml_value(text, key))
    return changes


def _load_yaml(file: Path) -> dict[str, Any]:
    try:
        loaded = yaml.safe_load(file.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise UsageError(f"{file}: no such file") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise UsageError(f"{file}: not YAML: {' '.join(str(error).split())}") from error
    if loaded is None:
        return {}
    if not isinstance(loaded, dict) or not all(isinstance(key, str) for key in loaded):
        raise UsageError(f"{file}: expected a mapping of options, got {type(loaded).__name__}")
    return loaded


def _yaml_value(text: str, key: str) -> Any:
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise UsageError(f"{key}: cannot read the value {text!r}; quote it as in YAML") from error


def _put(tree: dict[str, Any], key: str, value: Any) -> None:
    *parents, last = key.split(".")
    for parent in parents:
        branch = tree.setdefault(parent, {})
        if not isinstance(branch, dict):
            branch = tree[parent] = {}
        tree = branch
    tree[last] = value


def _convert(value: Any, hint: Any, current: Any, path: str) -> Any:
    """`value` as an instance of the annotation `hint`."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return _convert_union(value, arguments, current, path)
    if origin is typing.Literal:
        if value in arguments:
            return value
        raise UsageError(f"{path}: must be one of {', '.join(map(str, arguments))}, got {value!r}")
    if dataclasses.is_dataclass(hint):
        return _convert_dataclass(value, typing.cast(type, hint), current, path)
    if origin in (tuple, list):
        return origin(_items(value, arguments, path))
    if origin is dict and isinstance(value, Mapping):
        return _merge_mapping(value, arguments, current or {}, path)
    if hint is Any:
        return value
    if origin is not None or not isinstance(hint, type):
        raise UsageError(f"{path}: its type, {hint}, cannot be set from a text or a YAML file")
    return _convert_plain(value, hint, path)


def _merge_mapping(
    changes: Mapping[str, Any], arguments: tuple[Any, ...], current: Mapping[str, Any], path: str
) -> dict[str, Any]:
    """The entries of `current` with those of `changes` in their place; None removes one."""
    given = {
        key: _convert(value, arguments[1], None, _join(path, key))
        for key, value in changes.items()
        if value is not None
    }
    return {**{key: value for key, value in current.items() if key not in changes}, **given}


def _convert_union(value: Any, arguments: tuple[Any, ...], current: Any, path: str) -> Any:
    if value is None and type(None) in arguments:
        return None
    hints = [argument for argument in arguments if argument is not type(None)]
    for hint in hints[:-1]:
        try:
            return _convert(value, hint, current, path)
        except UsageError:
            continue
    return _convert(value, hints[-1], current, path)


def _convert_dataclass(value: Any, hint: type, current: Any, path: str) -> Any:
    if isinstance(value, hint):
        return value
    if not isinstance(value, Mapping):
        raise UsageError(f"{path}: expected a group of options, got {value!r}; set {path}.OPTION")
    return _build(type(current) if current is not None else hint, value, path, current=current)


def _build(
    hint: type[Config], values: Mapping[str, Any], where: str, *, current: Config | None
) -> Config:
    """A new one, or `current` with these values in place of its own."""
    hints = typing.get_type_hints(hint)
    converted = {}
    for name, value in values.items():
        path = _join(where, name)
        if name not in hints:
            raise UsageError(f"{path}: no such option; {nearest(name, hints)}")
        converted[name] = _convert(value, hints[name], getattr(current, name, None), path)
    make: Any = hint if current is None else functools.partial(dataclasses.replace, current)
    try:
        return typing.cast(Config, make(**converted))
    except (TypeError, ValueError) as error:
        raise UsageError(f"{where}: {error}" if where else str(error)) from error


def _join(where: str, name: str) -> str:
    return f"{where}.{name}" if where else name


def _items(value: Any, arguments: tuple[Any, ...], path: str) -> list[Any]:
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise UsageError(f"{path}: expected a list like [1, 2], got {value!r}")
    # `tuple[int, str]` has a type for each item, `tuple[int, ...]` and `list[int]` one for all.
    each = arguments[:1] * len(value) if len(arguments) == 1 or ... in arguments else arguments
    if len(each) != len(value):
        raise UsageError(f"{path}: expected {len(each)} values, got {len(value)}")
    pairs = zip(value, each, strict=True)
    return [_convert(item, hint, None, f"{path}[{i}]") for i, (item, hint) in enumerate(pairs)]


def _convert_plain(value: Any, hint: type, path: str) -> Any:
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if hint is float and isinstance(value, str):
        try:
            return float(value)  # YAML takes 1e-3 for a text
        except ValueError:
            pass
    if hint is Path and isinstance(value, str):
        return Path(value)
    if hint is str and isinstance(value, (int, float)) and not isinstance(value, bool):
        return str(value)
    if isinstance(value, hint) and not (hint is int and isinstance(value, bool)):
        return value
    expected = {int: "a whole number", float: "a number", bool: "true or false", str: "a text"}
    raise UsageError(f"{path}: expected {expected.get(hint, hint.__name__)}, got {value!r}")
