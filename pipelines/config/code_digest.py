"""A digest of user code for cache keys.

If a node takes a function by dotted path, TFX's cache key contains the path but not the code;
without this digest, the cache would serve outdated outputs after an edit of `preprocessing_fn`. The
digest covers the whole package of the function, and Penstock.
"""

import functools
import hashlib
import importlib.util
import os
from collections.abc import Iterable
from importlib.machinery import ModuleSpec
from pathlib import Path

import penstock
from penstock.components.errors import UsageError

_PENSTOCK = "penstock"
_ROOMS = ("components", "pipelines")


def code_digest(function: str) -> str:
    """Returns the sha256 (hex) of the code of `package.module.function`, without importing it.

    The code is all Python files of the package; for a module without a package, those in its
    folder.

    Raises:
        UsageError: There is no such module.
    """
    module = function.rpartition(".")[0]
    package = module.partition(".")[0]
    digest = hashlib.sha256(_penstock())
    if package != _PENSTOCK:
        digest.update(_digest(_files(_find(package, module))))
    return digest.hexdigest()


@functools.cache
def _penstock() -> bytes:
    folder = Path(penstock.__file__).parent
    # In a checkout, the folders are links, and `rglob` needs real paths.
    rooms = [(folder / room).resolve() for room in _ROOMS]
    return _digest(file for room in rooms for file in sorted(room.rglob("*.py")))


def _find(package: str, module: str) -> ModuleSpec:
    try:
        found = importlib.util.find_spec(package)
        if found is not None and (module == package or importlib.util.find_spec(module)):
            return found
    except (ModuleNotFoundError, ValueError):
        pass
    raise UsageError(f"no module {module!r}; is its folder on the Python path?")


def _files(package: ModuleSpec) -> list[Path]:
    if package.submodule_search_locations is None:
        return sorted(Path(package.origin).parent.glob("*.py")) if package.origin else []
    walked = (
        one for at in package.submodule_search_locations for one in os.walk(at, followlinks=True)
    )
    files = [Path(folder, name) for folder, _, names in walked for name in names]
    return sorted(file for file in files if file.suffix == ".py")


def _digest(files: Iterable[Path]) -> bytes:
    digest = hashlib.sha256()
    for file in files:
        digest.update(
            f"{file.parent.name}/{file.name}\0".encode()
            + hashlib.sha256(file.read_bytes()).digest()
        )
    return digest.digest()
