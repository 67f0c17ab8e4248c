"""Finds pipelines by name or dotted path, for `run` and `compile`."""

import dataclasses
import importlib
import importlib.util
import inspect
import os
import sys
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penstock.components.errors import UsageError
from penstock.components.plain import override

HERE = "."
"""Name of the pipeline of the package in the working directory, from `penstock init`."""

PIPELINES = {
    "taxi": "penstock.pipelines.taxi.pipeline:create_pipeline",
    "digits": "penstock.pipelines.digits.pipeline:create_pipeline",
}
# Names of the module and class of a config, in packages of `penstock init` and in the pipelines
# above.
_CONFIG_MODULE, _CONFIG = "config", "Config"
# Part of the text of the ValueError that `tfx.orchestration.pipeline.Pipeline` raises for a name
# that is too long. Any other ValueError is a bug, and is raised unchanged.
_NAME_TOO_LONG = "exceeds maximum allowed length"


@dataclass(frozen=True)
class PipelineFactory:
    """Function that makes a `tfx.dsl.Pipeline`, and the function's config, if it takes one."""

    create: Callable[..., Any]
    config: Any

    def make(self) -> Any:
        try:
            return self.create() if self.config is None else self.create(self.config)
        except ValueError as error:
            if _NAME_TOO_LONG in str(error):
                raise UsageError(f"the pipeline's name is too long for TFX: {error}") from error
            raise


def find_pipeline(name: str, changes: Mapping[str, Any]) -> PipelineFactory:
    """Finds and configures a pipeline: one of `PIPELINES`, `package.module:function` or `HERE`."""
    path = pipeline_path(name)
    peek_config(path, changes)  # reports wrong options before the import of TFX, which takes 7 s
    create = _load(path)
    kind = _config_type(create, path)
    if kind is not None:
        return PipelineFactory(create, override(kind(), changes))
    if changes:
        raise UsageError(f"{path} takes no config, so it has no option {next(iter(changes))!r}")
    return PipelineFactory(create, None)


def pipeline_path(name: str) -> str:
    path = _find_here() if name == HERE else PIPELINES.get(name, name)
    if ":" not in path:
        raise UsageError(
            f"no pipeline {name!r}; choices: {', '.join(PIPELINES)}, "
            "or your own as package.module:function"
        )
    return path


def peek_config(name: str, changes: Mapping[str, Any]) -> Any | None:
    """Returns the config of a pipeline without importing the pipeline, which would import TFX.

    Returns None if the module `config` in the pipeline's folder does not exist, or has no dataclass
    `Config` whose fields all have defaults.
    """
    pipeline = pipeline_path(name).partition(":")[0]
    _require_module(pipeline)
    package = pipeline.rpartition(".")[0]
    module = f"{package}.{_CONFIG_MODULE}"
    found = importlib.util.find_spec(module) if package else None
    kind = getattr(importlib.import_module(module), _CONFIG, None) if found else None
    if not (isinstance(kind, type) and dataclasses.is_dataclass(kind)):
        return None
    return None if _required(kind) else override(kind(), changes)


def _find_here() -> str:
    found = sorted(
        file.parent.name
        for file in Path.cwd().glob("*/pipeline.py")
        if file.with_name("__init__.py").exists()
    )
    if len(found) != 1:
        there = f"several packages have one: {', '.join(found)}" if found else "there is none"
        raise UsageError(
            f"no pipeline named, and in {Path.cwd()} {there}; name one of {', '.join(PIPELINES)}, "
            "or your own as package.module:function"
        )
    return f"{found[0]}.pipeline:create_pipeline"


def _require_module(name: str) -> None:
    """Raises UsageError if there is no such module, before TFX is imported."""
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        found = importlib.util.find_spec(name)
    except ModuleNotFoundError as error:
        if not error.name or not name.startswith(error.name):
            raise  # the package exists, but a module that it imports does not
        found = None
    if found is None:
        raise UsageError(f"no module {name!r}; run penstock from the folder that contains it")


def _load(path: str) -> Callable[..., Any]:
    module_name, _, function_name = path.partition(":")
    module = importlib.import_module(module_name)
    function = getattr(module, function_name, None)
    if not callable(function):
        raise UsageError(f"module {module_name!r} has no function {function_name!r}")
    return typing.cast(Callable[..., Any], function)


def _required(function: Callable[..., Any]) -> list[str]:
    """Returns the names of the parameters, or of a dataclass's fields, that have no default."""
    parameters = inspect.signature(function).parameters.values()
    return [p.name for p in parameters if p.default is inspect.Parameter.empty]


def _config_type(create: Callable[..., Any], path: str) -> Any:
    required = _required(create)
    if not required:
        return None
    hint = typing.get_type_hints(create).get(required[0])
    if len(required) > 1 or not dataclasses.is_dataclass(hint):
        raise UsageError(f"{path} must take nothing, or one argument annotated with a dataclass")
    return hint
