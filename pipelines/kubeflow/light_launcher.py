"""Imports of TFX's launcher without TensorFlow and Beam, which take most of a short node's time.

TFX's orchestration works without them: its wheel `ml-pipelines-sdk` requires neither. An importer,
a resolver and a node from the cache need neither of them, nor the executor's module. Before an
executor runs, both are imported, with TensorFlow's file systems.
"""

import importlib
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from penstock.pipelines.runs.submodules import submodules_only

_HEAVY = ("tensorflow", "apache_beam", "tfx.components")
# A driver that needs these packages for their protos and constants alone.
_LIGHT_DRIVER = "penstock.components.example_gen.driver"
_PACKAGES = ["tensorflow", "tensorflow_data_validation", "tensorflow_model_analysis"]


@contextmanager
def without_tensorflow() -> Iterator[None]:
    """Hides TensorFlow, Beam and TFX's components from imports, unless they are imported."""
    hidden = [name for name in _HEAVY if name not in sys.modules]
    sys.modules.update(dict.fromkeys(hidden))  # type: ignore[arg-type]  # None fails an import
    try:
        yield
    finally:
        for name in hidden:
            del sys.modules[name]


def load_tensorflow() -> None:
    """Imports what `without_tensorflow` hid from TFX: TensorFlow's file systems, and Beam."""
    from tfx.dsl.components.base import base_beam_executor
    from tfx.dsl.io.plugins import tensorflow_gfile

    if tensorflow_gfile.tf is None:
        importlib.reload(tensorflow_gfile)  # registers its file systems
    if base_beam_executor.beam is None:
        base_beam_executor.beam = importlib.import_module("apache_beam")


def import_driver(class_path: str) -> None:
    """Imports a custom driver; for ShardedExampleGen's, TensorFlow stays hidden."""
    if class_path.rpartition(".")[0] != _LIGHT_DRIVER:
        load_tensorflow()
        return
    with submodules_only("tfx.components", *_PACKAGES):
        importlib.import_module(_LIGHT_DRIVER)


def executor_operators(python: Callable[..., Any] | None = None) -> dict[Any, Any]:
    """Returns operators for TFX's launcher that import an executor only when they run it."""
    from tfx.orchestration.portable import (
        base_executor_operator,
        beam_executor_operator,
        python_executor_operator,
    )
    from tfx.proto.orchestration import executable_spec_pb2

    class Deferred(base_executor_operator.BaseExecutorOperator):
        SUPPORTED_EXECUTOR_SPEC_TYPE = ()  # the operator checks it
        SUPPORTED_PLATFORM_CONFIG_TYPE = ()

        def __init__(self, make: Callable[..., Any], **options: Any) -> None:
            self._make = partial(make, **options)

        def run_executor(self, execution_info: Any) -> Any:
            load_tensorflow()
            return self._make().run_executor(execution_info)

    python = python or python_executor_operator.PythonExecutorOperator
    beam = beam_executor_operator.BeamExecutorOperator
    return {
        executable_spec_pb2.PythonClassExecutableSpec: partial(Deferred, python),
        executable_spec_pb2.BeamExecutableSpec: partial(Deferred, beam),
    }
