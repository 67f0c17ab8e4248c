"""Imports of TFX's launcher without TensorFlow and Beam, which take most of a short node's time.

TFX's orchestration supports their absence: its wheel `ml-pipelines-sdk` requires neither. A node
that is served from the cache, an importer or a resolver needs neither; an executor gets both, and
TensorFlow's file systems, before it runs.
"""

import importlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_HEAVY = ("tensorflow", "apache_beam", "tfx.components")


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
    """Gives TFX what `without_tensorflow` hid: TensorFlow's file systems, and Beam."""
    from tfx.dsl.components.base import base_beam_executor
    from tfx.dsl.io.plugins import tensorflow_gfile

    if tensorflow_gfile.tf is None:
        importlib.reload(tensorflow_gfile)  # registers its file systems
    if base_beam_executor.beam is None:
        base_beam_executor.beam = importlib.import_module("apache_beam")


def executor_operators() -> dict[Any, Any]:
    """Returns TFX's operators of Python and Beam executors, with TensorFlow loaded first."""
    from tfx.orchestration.portable import beam_executor_operator, python_executor_operator
    from tfx.proto.orchestration import executable_spec_pb2

    class PythonOperator(python_executor_operator.PythonExecutorOperator):
        def run_executor(self, *args: Any, **kwargs: Any) -> Any:
            load_tensorflow()
            return super().run_executor(*args, **kwargs)

    class BeamOperator(beam_executor_operator.BeamExecutorOperator):
        def run_executor(self, *args: Any, **kwargs: Any) -> Any:
            load_tensorflow()
            return super().run_executor(*args, **kwargs)

    return {
        executable_spec_pb2.PythonClassExecutableSpec: PythonOperator,
        executable_spec_pb2.BeamExecutableSpec: BeamOperator,
    }
