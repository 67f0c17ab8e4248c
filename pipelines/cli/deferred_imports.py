"""Modules that TensorFlow, Beam and TFX import and a command seldom uses, loaded on first use.

They take 1 s of CPU of the 6 s that a run's imports take.
"""

import importlib
import sys
from collections.abc import Sequence
from importlib.abc import Loader
from importlib.machinery import ModuleSpec, PathFinder
from threading import RLock
from types import ModuleType
from typing import Any

_RUNNERS = "tfx.components.infra_validator.model_server_runners"
_DEFERRED = frozenset(
    (
        # Keras and its tuner: plots, images, scikit-learn.
        *("matplotlib", "matplotlib.pyplot", "matplotlib.patches"),
        *("scipy.stats", "scipy.ndimage", "sklearn.gaussian_process"),
        *("sklearn.model_selection", "sklearn.metrics", "sklearn.pipeline"),
        # TFMA's metrics of texts.
        *("nltk", "nltk.stem", "nltk.stem.porter", "rouge_score.rouge_scorer"),
        # Clients of stores and services, of Beam and TensorFlow; TFX's InfraValidator.
        *(
            "google.cloud.bigquery",
            "google.cloud.bigquery_storage_v1",
            "google.cloud.pubsub",
            "googleapiclient.discovery",
        ),
        *("boto3", "docker", "docker.types", f"{_RUNNERS}.kubernetes_runner"),
        f"{_RUNNERS}.local_docker_runner",
    )
)


def defer_imports() -> None:
    """Defers the modules; only in a process that is Penstock's own, as imports are global."""
    if _Finder not in sys.meta_path:
        sys.meta_path.insert(0, _Finder)


class _Finder(PathFinder):
    @classmethod
    def find_spec(
        cls, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        spec = super().find_spec(name, path, target) if name in _DEFERRED else None
        if spec is not None:
            spec.loader = _Loader(spec.loader)
        return spec


class _Loader(Loader):
    def __init__(self, loader: Any) -> None:
        self._loader = loader

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return _Deferred(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Leaves the code of the module for the first use of a name in it."""
        vars(module)["__deferred__"] = self._loader, RLock()


class _Deferred(ModuleType):
    """A module that runs its code when a name is missing in it: on the first use."""

    def __getattr__(self, name: str) -> Any:
        if "__deferred__" not in vars(self):  # the import system looks for what it sets
            raise AttributeError(name)
        if (submodule := f"{self.__name__}.{name}") in _DEFERRED:
            return importlib.import_module(submodule)
        loader, lock = vars(self)["__deferred__"]
        with lock:
            parent = sys.modules.get(self.__name__.rpartition(".")[0])
            if isinstance(parent, _Deferred):
                hasattr(parent, "__all__")  # runs it first, as an import would; it may run this one
            if type(self) is _Deferred:
                self.__class__ = ModuleType  # type: ignore[assignment]
                vars(self)["__loader__"] = vars(self)["__spec__"].loader = loader
                loader.exec_module(self)
        return getattr(importlib.import_module(self.__name__), name)
