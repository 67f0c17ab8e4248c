"""Changes a config by a YAML file and by `--set key=value`."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from penstock.components.errors import UsageError


def name_and_value(flag: str, text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise UsageError(f"{flag} takes NAME=VALUE, got {text!r}")
    return name, value


def load_overrides(file: Path | None, assignments: Sequence[str]) -> dict[str, Any]:
    changes = _load_yaml(file) if file else {}
    for assignment in assignments:
        key, text = name_and_value("--set", assignment)
        *parents, last = key.split(".")
        tree = changes
        for parent in parents:
            if not isinstance(tree.get(parent), dict):
                tree[parent] = {}
            tree = tree[parent]
        tree[last] = yaml_value(text, key)
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


def yaml_value(text: str, key: str) -> Any:
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise UsageError(f"{key}: cannot read the value {text!r}; quote it as in YAML") from error
