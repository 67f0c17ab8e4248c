"""The compiled pipeline file: checks before it is written, and the contents that `submit` needs.

Imports neither TFX nor kfp, so that wrong options are reported at once.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from penstock.components.errors import DataError, UsageError
from penstock.components.files.commit import check_file
from penstock.pipelines.config.overrides import name_and_value

# Python type of each KFP parameter type, and its name in error messages.
_KINDS: dict[str, tuple[type, str]] = {
    "STRING": (str, "a text"),
    "BOOLEAN": (bool, "true or false"),
    "NUMBER_INTEGER": (int, "a whole number"),
    "NUMBER_DOUBLE": (float, "a number"),
    "STRUCT": (dict, "a JSON object"),
    "LIST": (list, "a JSON list"),
}
_DIGEST_DIGITS = 64
_BY_DIGEST = re.compile(rf"^[^\s@]+@sha256:[0-9a-f]{{{_DIGEST_DIGITS}}}$")
_WRONG_DIGEST = re.compile(r"^[^\s@]+@sha256:(?P<digest>.*)$")


@contextmanager
def needs_kubeflow() -> Iterator[None]:
    """Turns a failed import of kfp into a UsageError that names the extra."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise UsageError(
            f"no module {error.name!r}; install the extra: pip install 'penstock-tfx[kubeflow]'"
        ) from error


def check_image(image: str, allow_mutable_tag: bool) -> None:
    """Raises UsageError for a wrong image name, or one without digest unless tags are allowed."""
    if not image or re.search(r"[\s{}]", image):
        raise UsageError(f"not the name of an image: {image!r}")
    if _BY_DIGEST.match(image):
        return
    if wrong := _WRONG_DIGEST.match(image):
        raise UsageError(
            f"image {image!r}: a sha256 digest is {_DIGEST_DIGITS} hexadecimal digits in lower "
            f"case, got {len(wrong['digest'])} characters; registry and build print the whole one"
        )
    if not allow_mutable_tag:
        raise UsageError(
            f"image {image!r} may change between two runs; give it by digest "
            "(NAME@sha256:...), or pass --allow-mutable-tag"
        )


def check_output(image: str, out: Path, *, allow_mutable_tag: bool, overwrite: bool) -> None:
    """Raises UsageError for a wrong image, an existing file, or a name without .yaml or .yml."""
    check_image(image, allow_mutable_tag)
    if out.suffix not in (".yaml", ".yml"):
        raise UsageError(f"{out}: Kubeflow reads files that end in .yaml")
    check_file(out, overwrite=overwrite)


@dataclass(frozen=True)
class CompiledFile:
    """Contents of a compiled pipeline file; `tasks` maps KFP's task names to display names."""

    path: Path
    name: str
    parameters: Mapping[str, Mapping[str, Any]]
    tasks: Mapping[str, str]

    def arguments(self, texts: Sequence[str]) -> dict[str, Any]:
        """Parses `NAME=VALUE` texts with the types in the file."""
        given = dict(self._argument(text) for text in texts)
        for name, definition in self.parameters.items():
            required = not definition.get("isOptional") and "defaultValue" not in definition
            if required and name not in given:
                raise UsageError(f"parameter {name!r} has no default; give --parameter {name}=...")
        return given

    def _argument(self, text: str) -> tuple[str, Any]:
        name, value = name_and_value("--parameter", text)
        if name not in self.parameters:
            choices = ", ".join(self.parameters) or "there are none"
            raise UsageError(f"{self.path}: no parameter {name!r}; choices: {choices}")
        kind, _ = _KINDS[self.parameters[name].get("parameterType", "STRING")]
        return name, parse_value(name, value, kind)


def parse_value(name: str, text: str, kind: type) -> Any:
    """Parses the text of a parameter's value as a `kind`.

    KFP writes every number as a double, so an integer may be written as 1e+06.
    """
    if kind is str:
        return text
    try:
        value = json.loads(text.lower() if kind is bool else text)
        if isinstance(value, bool) == (kind is bool):
            if kind is int and value == int(value):
                return int(value)
            if kind is float:
                return float(value)
            if isinstance(value, kind):
                return value
    except (OverflowError, TypeError, ValueError):
        pass
    [expected] = [words for one, words in _KINDS.values() if one is kind]
    raise UsageError(f"parameter {name!r}: expected {expected}, got {text!r}")


def tasks_of(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the container tasks of a pipeline spec by name, including those in nested DAGs."""
    dags = [one["dag"] for one in (spec["root"], *spec["components"].values()) if "dag" in one]
    return {
        name: task
        for dag in dags
        for name, task in dag["tasks"].items()
        if "dag" not in spec["components"][task["componentRef"]["name"]]
    }


def read_compiled_file(path: Path) -> CompiledFile:
    """Reads a compiled pipeline file; raises DataError for any other file."""
    try:
        spec, *_ = yaml.safe_load_all(path.read_text(encoding="utf-8"))
        tasks = tasks_of(spec)
        return CompiledFile(
            path=path,
            name=spec["pipelineInfo"]["name"],
            parameters=spec["root"].get("inputDefinitions", {}).get("parameters", {}),
            tasks={name: task["taskInfo"]["name"] for name, task in tasks.items()},
        )
    except (yaml.YAMLError, UnicodeDecodeError, ValueError, KeyError, TypeError) as error:
        raise DataError(
            f"{path}: not a compiled Kubeflow pipeline; make one with penstock compile"
        ) from error
