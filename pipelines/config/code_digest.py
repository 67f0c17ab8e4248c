"""A digest of user code for cache keys.

TFX's key of a node that is given a function by dotted path holds the path, not the code, so
an edited `preprocessing_fn` is served from the cache. This digest covers the source of the
function's module and, transitively, of the modules that it imports from the same package and from
anywhere outside the Python environment, such as the working directory. Penstock counts as a whole.
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
    """sha256 (hex) of the code behind `package.module.function`.

    Other modules that are installed in the environment count by nothing: their versions
    belong to it.
    """
    digest = hashlib.sha256()
    for name, source in sorted(modules_behind(function).items()):
        digest.update(f"{name}\0{hashlib.sha256(source).hexdigest()}\n".encode())
    return digest.hexdigest()


def modules_behind(function: str) -> dict[str, bytes]:
    """The sources of all modules that count, by name, none of them run; UsageError if none."""
    module = function.rpartition(".")[0]
    sources: dict[str, bytes] = {}
    _collect(module, module.partition(".")[0], sources)
    return sources


@functools.cache
def _penstock() -> bytes:
    digest = hashlib.sha256()
    for room in ("components", "pipelines"):  # links in a checkout, which `glob` does not follow
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
        _collect(spec.parent, own, sources)  # to import a module runs its package first
    for name in _imported_names(source, module, spec.submodule_search_locations is not None):
        root = name.partition(".")[0]
        counts = root == own or _is_outside_environment(root)
        if root == _PENSTOCK or (counts and _find(name) is not None):
            _collect(name, own, sources)


def _is_outside_environment(package: str) -> bool:
    spec = _find(package)
    if spec is None:
        return False
    # Without a location: built in, or a namespace package, which has folders instead.
    places = [spec.origin] if spec.has_location else spec.submodule_search_locations
    found = [os.path.realpath(place or "") for place in places or ()]
    return bool(found) and not any(place.startswith(_installed()) for place in found)


@functools.cache
def _installed() -> tuple[str, ...]:
    library = [sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")]
    places = (*library, *site.getsitepackages())
    return tuple({f"{os.path.realpath(place)}{os.sep}" for place in places})


def _find(module: str) -> ModuleSpec | None:
    """The module's spec. Its packages are imported for it, which is why they should be light."""
    parent = module.rpartition(".")[0]
    if parent:
        parent_spec = _find(parent)
        # In `from a.b import c` with a module `a.b`, a search for `a.b.c` would import `a.b`.
        if parent_spec is None or parent_spec.submodule_search_locations is None:
            return None
    try:
        return importlib.util.find_spec(module)
    except (ModuleNotFoundError, ValueError):
        return None


@functools.cache  # a pipeline has digests of two functions or more, mostly of the same modules
def _imported_names(source: bytes, module: str, is_package: bool) -> tuple[str, ...]:
    return tuple(_names(ast.parse(source), module, is_package))


def _names(tree: ast.Module, module: str, is_package: bool) -> Iterator[str]:
    """Names that may be modules: for `from a.b import c` both `a.b` and `a.b.c`."""
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
