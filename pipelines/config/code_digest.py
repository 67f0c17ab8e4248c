"""A digest of user code for cache keys.

If a node takes a function by dotted path, TFX's cache key holds the path, not the code; so without
this digest the cache would serve an edited `preprocessing_fn`. This digest covers the source of the
function's module and, transitively, of the modules that it imports from the same package and from
anywhere outside the Python environment, such as the working directory. A change anywhere in
Penstock changes the digest too.
"""

import ast
import functools
import hashlib
import importlib.util
import os
import site
import sysconfig
from collections.abc import Iterator
from importlib.machinery import ModuleSpec
from pathlib import Path

import penstock
from penstock.components.errors import UsageError

_PENSTOCK = "penstock"


def code_digest(function: str) -> str:
    """Returns the sha256 (hex) of the code behind `package.module.function`.

    Modules of other installed packages do not count: their versions belong to the environment.
    """
    digest = hashlib.sha256()
    for name, source in sorted(modules_behind(function).items()):
        digest.update(f"{name}\0{hashlib.sha256(source).hexdigest()}\n".encode())
    return digest.hexdigest()


def modules_behind(function: str) -> dict[str, bytes]:
    """Returns the sources of all modules in the digest, by name, without running them."""
    module = function.rpartition(".")[0]
    sources: dict[str, bytes] = {}
    _collect(module, module.partition(".")[0], sources)
    return sources


@functools.cache
def _penstock() -> bytes:
    digest = hashlib.sha256()
    for room in ("components", "pipelines"):  # a checkout has links, and `rglob` needs real paths
        for file in sorted(Path(penstock.__file__).parent.joinpath(room).resolve().rglob("*.py")):
            digest.update(file.read_bytes())
    return digest.digest()


def _collect(module: str, own: str, sources: dict[str, bytes]) -> None:
    if module in sources:
        return
    if module.partition(".")[0] == _PENSTOCK:
        sources[_PENSTOCK] = _penstock()
        return
    spec = _find(module)
    if spec is None:
        raise UsageError(f"no module {module!r}; is its folder on the Python path?")
    if spec.origin is None or not spec.origin.endswith(".py"):
        return  # a namespace package, or compiled
    source = Path(spec.origin).read_bytes()
    sources[module] = source
    if spec.parent and spec.parent != module:
        _collect(spec.parent, own, sources)  # importing a module runs its packages first
    for name in _imported_names(source, module, spec.submodule_search_locations is not None):
        root = name.partition(".")[0]
        counts = root == own or _is_outside_environment(root)
        if root == _PENSTOCK or (counts and _find(name) is not None):
            _collect(name, own, sources)


def _is_outside_environment(package: str) -> bool:
    spec = _find(package)
    if spec is None:
        return False
    # A built-in module has no location; a namespace package has folders instead.
    places = [spec.origin] if spec.has_location else spec.submodule_search_locations
    found = [os.path.realpath(place or "") for place in places or ()]
    return bool(found) and not any(place.startswith(_installed()) for place in found)


@functools.cache
def _installed() -> tuple[str, ...]:
    library = [sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")]
    places = (*library, *site.getsitepackages())
    return tuple({f"{os.path.realpath(place)}{os.sep}" for place in places})


def _find(module: str) -> ModuleSpec | None:
    """Returns the module's spec.

    Imports the packages above it, so these should be fast to import.
    """
    parent = module.rpartition(".")[0]
    if parent:
        parent_spec = _find(parent)
        # If `a.b` is a module, not a package, a search for `a.b.c` would import it.
        if parent_spec is None or parent_spec.submodule_search_locations is None:
            return None
    try:
        return importlib.util.find_spec(module)
    except (ModuleNotFoundError, ValueError):
        return None


@functools.cache  # the functions of a pipeline mostly import the same modules
def _imported_names(source: bytes, module: str, is_package: bool) -> tuple[str, ...]:
    return tuple(_names(ast.parse(source), module, is_package))


def _names(tree: ast.Module, module: str, is_package: bool) -> Iterator[str]:
    """Yields names that may be modules: for `from a.b import c` both `a.b` and `a.b.c`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = _absolute(node, module, is_package)
            yield from (base, *(f"{base}.{alias.name}" for alias in node.names))


def _absolute(node: ast.ImportFrom, module: str, is_package: bool) -> str:
    if not node.level:
        return node.module or ""
    parents = module.split(".")
    kept = parents[: len(parents) - node.level + is_package]
    return ".".join([*kept, *([node.module] if node.module else [])])
