"""Imports of single modules, such as protos, from packages that import TensorFlow."""

import importlib.util
import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def submodules_only(*packages: str) -> Iterator[None]:
    """Imports modules of packages without the packages' own `__init__`, unless it has run."""
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
            sys.modules.pop(f"{name}.proto", None)  # the real package binds its own
