"""A digest of user code for cache keys.

If a node takes a function by dotted path, TFX's cache key holds the path, not the code; so without
this digest the cache would serve an edited `preprocessing_fn`. The digest covers the whole package
of the function, packages beside it that it imports, and Penstock. Installed packages do not count:
they belong to the environment.
"""

import ast
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
_INSTALLED = ("site-packages", "dist-packages")  # folders of installed packages


def code_digest(function: str) -> str:
    """Returns the sha256 (hex) of the code behind `package.module.function`; does not import it.

    The code is all Python files of the package and of those beside it that they import; of a module
    without a package, the files in its folder.

    Raises:
        UsageError: There is no such module.
    """
    module = function.rpartition(".")[0]
    package = module.partition(".")[0]
    digest = hashlib.sha256(_penstock())
    if package != _PENSTOCK:
        digest.update(_digest(_with_imports(_files(_find(package, module)), {package})))
    return digest.hexdigest()


@functools.cache
def _penstock() -> bytes:
    folder = Path(penstock.__file__).parent
    # A checkout has links to the rooms, and `rglob` needs real paths.
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
    if package.submodule_search_locations is not None:
        return [file for folder in package.submodule_search_locations for file in _below(folder)]
    return sorted(Path(package.origin).parent.glob("*.py")) if package.origin else []


def _below(folder: str | Path) -> list[Path]:
    walked = os.walk(folder, followlinks=True)
    names = [Path(at, name) for at, _, names in walked for name in names if name.endswith(".py")]
    return sorted(names)


def _with_imports(files: list[Path], known: set[str]) -> list[Path]:
    """Adds the files of packages and modules that lie beside the first file's and are imported."""
    if not files:
        return files
    beside = next(one for one in files[0].parents if not (one / "__init__.py").exists())
    if beside.name in _INSTALLED:
        return files
    found = list(files)
    for file in found:  # which grows
        for name in sorted(_imported(file) - known):
            known.add(name)
            if (beside / f"{name}.py").exists():
                found.append(beside / f"{name}.py")
            elif (beside / name).is_dir():
                found += _below(beside / name)
    return found


def _imported(file: Path) -> set[str]:
    """Returns the first names of the modules that a file imports; none if it cannot be parsed."""
    try:
        nodes = list(ast.walk(ast.parse(file.read_bytes())))
    except SyntaxError:
        return set()
    names = {alias.name for one in nodes if isinstance(one, ast.Import) for alias in one.names}
    names |= {
        one.module or "" for one in nodes if isinstance(one, ast.ImportFrom) and not one.level
    }
    return {name.partition(".")[0] for name in names} - {_PENSTOCK, ""}


def _digest(files: Iterable[Path]) -> bytes:
    digest = hashlib.sha256()
    for file in files:
        digest.update(
            f"{file.parent.name}/{file.name}\0".encode()
            + hashlib.sha256(file.read_bytes()).digest()
        )
    return digest.digest()
