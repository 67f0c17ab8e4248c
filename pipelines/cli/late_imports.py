"""Runs the code of rarely used libraries only when one of their names is first needed.

TFX, Beam and TensorFlow Model Analysis import these libraries for nodes and metrics that most
pipelines do not have; that took an eighth of the CPU time of all imports.
"""

import importlib
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import find_spec
from threading import RLock
from types import ModuleType
from typing import Any

_RUNNERS = "tfx.components.infra_validator.model_server_runners"
_RARE = {
    *("boto3", "docker", "google.cloud.bigquery", "google.cloud.pubsub", "matplotlib.pyplot"),
    "tensorflow_model_analysis.view",
    *(f"{_RUNNERS}.kubernetes_runner", f"{_RUNNERS}.local_docker_runner"),
}

_RUNNING = RLock()  # held by the thread that runs a library's code


class LateImports(MetaPathFinder):
    """Finder of the rarely used libraries, for the front of `sys.meta_path`."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        spec = PathFinder.find_spec(fullname, path, target) if fullname in _RARE else None
        if spec is not None and spec.loader is not None:
            spec.loader = _LateLoader(spec.loader)
        return spec


class _LateLoader(Loader):
    def __init__(self, loader: Loader) -> None:
        self.real = loader

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self.real.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        module.__class__ = _LateModule

    def run(self, module: ModuleType) -> None:
        module.__loader__ = self.real
        if module.__spec__ is not None:
            module.__spec__.loader = self.real
        self.real.exec_module(module)
        module.__class__ = ModuleType


class _LateModule(ModuleType):
    """Module with its spec and imported submodules only, until another attribute is used."""

    def __getattribute__(self, name: str) -> Any:
        known = object.__getattribute__(self, "__dict__")
        if name in known:
            return known[name]
        inner = f"{known['__name__']}.{name}"
        if "__path__" in known and not name.startswith("__") and find_spec(inner):
            return importlib.import_module(inner)
        with _RUNNING:
            if isinstance(loader := known["__loader__"], _LateLoader):
                loader.run(self)
        return ModuleType.__getattribute__(self, name)
