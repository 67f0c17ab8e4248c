"""A compiled pipeline file, as far as it must be known to submit it: its parameters and tasks."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from penstock.components.errors import DataError, UsageError

# What a value of each of KFP's kinds is called, and the types that JSON gives it; others are texts.
_KINDS: dict[str, tuple[str, tuple[type, ...]]] = {
    "NUMBER_INTEGER": ("a whole number", (int,)),
    "NUMBER_DOUBLE": ("a number", (int, float)),
    "BOOLEAN": ("true or false", (bool,)),
    "LIST": ("a JSON list", (list,)),
    "STRUCT": ("a JSON object", (dict,)),
}


@dataclass(frozen=True)
class KubeflowFile:
    """What a compiled pipeline file says.

    Attributes:
        parameters: KFP's definition of each parameter, by name.
        tasks: The name to show of each task, by its name in KFP.
        retries: Whether a task asks to be tried again when it fails.
    """

    path: Path
    name: str
    parameters: Mapping[str, Mapping[str, Any]]
    tasks: Mapping[str, str]
    retries: bool

    def arguments(self, texts: Sequence[str]) -> dict[str, Any]:
        """Values for a run from `NAME=VALUE` texts, of the types that the file says.

        Raises:
            UsageError: A parameter does not exist, does not fit, or is missing.
        """
        given = dict(self._argument(text) for text in texts)
        for name, definition in self.parameters.items():
            required = not definition.get("isOptional") and "defaultValue" not in definition
            if required and name not in given:
                raise UsageError(f"parameter {name!r} has no default; give --parameter {name}=...")
        return given

    def _argument(self, text: str) -> tuple[str, Any]:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise UsageError(f"--parameter takes NAME=VALUE, got {text!r}")
        if name not in self.parameters:
            choices = ", ".join(self.parameters) or "there are none"
            raise UsageError(f"{self.path}: no parameter {name!r}; choices: {choices}")
        kind = self.parameters[name].get("parameterType", "STRING")
        if kind not in _KINDS:
            return name, value
        expected, types = _KINDS[kind]
        try:
            loaded = json.loads(value)
        except ValueError:
            loaded = None
        if not isinstance(loaded, types) or (isinstance(loaded, bool) and kind != "BOOLEAN"):
            raise UsageError(f"parameter {name!r}: expected {expected}, got {value!r}")
        return name, loaded


def read_kubeflow_file(path: Path) -> KubeflowFile:
    """Read a compiled pipeline file; DataError if it is none."""
    try:
        spec, *_ = yaml.safe_load_all(path.read_text(encoding="utf-8"))
        dag = spec["root"]["dag"]["tasks"]
        return KubeflowFile(
            path=path,
            name=spec["pipelineInfo"]["name"],
            parameters=spec["root"].get("inputDefinitions", {}).get("parameters", {}),
            tasks={name: task["taskInfo"]["name"] for name, task in dag.items()},
            retries=any("retryPolicy" in task for task in dag.values()),
        )
    except (yaml.YAMLError, UnicodeDecodeError, ValueError, KeyError, TypeError) as error:
        raise DataError(
            f"{path}: not a compiled Kubeflow pipeline; make one with penstock compile"
        ) from error
