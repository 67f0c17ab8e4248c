"""Imports TFX's launcher without TensorFlow and Beam.

Importing TensorFlow and Beam takes most of a short node's time.

TFX's orchestration works without them; its wheel `ml-pipelines-sdk` requires neither. An importer,
a resolver and a node served from the cache need neither of them, nor any executor module. Before an
executor runs, `load_tensorflow` imports both and registers TensorFlow's file systems.
"""

import importlib
import importlib.util
import sys
from collections.abc import Iterator
from contextlib import contextmanager

_HEAVY = ("tensorflow", "apache_beam", "tfx.components")
# Driver that needs `tfx.components` and the packages in `_PACKAGES` only for protos and constants.
_LIGHT_DRIVER = "penstock.components.example_gen.driver"
_PACKAGES = ["tensorflow", "tensorflow_data_validation", "tensorflow_model_analysis"]


@contextmanager
def without_tensorflow() -> Iterator[None]:
    """Hides TensorFlow, Beam and TFX's components from imports, unless already imported."""
    hidden = [name for name in _HEAVY if name not in sys.modules]
    sys.modules.update(dict.fromkeys(hidden))  # type: ignore[arg-type]  # None blocks the import
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
    """Imports a custom driver; only ShardedExampleGen's is imported without TensorFlow."""
    if class_path.rpartition(".")[0] != _LIGHT_DRIVER:
        load_tensorflow()
        return
    with _submodules_only("tfx.components", *_PACKAGES):
        importlib.import_module(_LIGHT_DRIVER)


@contextmanager
def _submodules_only(*packages: str) -> Iterator[None]:
    """Lets code import modules of packages without running the `__init__` of the packages."""
    hollow = [name for name in packages if name not in sys.modules]
    for name in hollow:
        spec = importlib.util.find_spec(name)
        assert spec is not None, name
        sys.modules[name] = importlib.util.module_from_spec(spec)
    try:
        yield
    finally:
        for name in hollow:
            del sys.modules[name]
            sys.modules.pop(f"{name}.proto", None)  # so that the real package imports it again
