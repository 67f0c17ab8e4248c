"""A digest of user code for cache keys.

TFX's key of a node that is given a function by dotted path holds the path, not the code, so
an edited `preprocessing_fn` is served from the cache. This digest covers the source of the
function's module and, transitively, of the modules that it imports from the same package, from
Penstock, and from anywhere outside the Python environment, such as the working directory.
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

FACE = "penstock"


def code_digest(function: str) -> str:
    """sha256 (hex) of the code behind `package.module.function`.

    Other modules that are installed in the environment count by nothing: their versions
    belong to it.

    Raises:
        UsageError: There is no such module.
    """
    digest = hashlib.sha256()
    for name, source in sorted(modules_behind(function).items()):
        digest.update(f"{name}\0{hashlib.sha256(source).hexdigest()}\n".encode())
    return digest.hexdigest()


def modules_behind(function: str) -> dict[str, bytes]:
    """The sources of all modules that count, by name, none of them run; UsageError if none."""
    module = function.rpartition(".")[0]
    sources: dict[str, bytes] = {}
    _collect(module, {module.partition(".")[0], FACE}, sources)
    return sources


@functools.cache
def face_modules() -> dict[str, str]:
    """The module of each name of the face, which loads them lazily: from its stub."""
    stub = ast.parse(Path(penstock.__file__).with_suffix(".pyi").read_text(encoding="utf-8"))
    return {
        alias.name: _absolute(node, FACE, is_package=True)
        for node in stub.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }


def _collect(module: str, roots: set[str], sources: dict[str, bytes]) -> None:
    if module in sources:
        return
    spec = _find(module)
    if spec is None:
        raise UsageError(f"no module {module!r}; is its folder on the Python path?")
    if spec.origin is None or not spec.origin.endswith(".py"):
        return  # a namespace package, or compiled
    source = Path(spec.origin).read_bytes()
    sources[module] = source
    if spec.parent and spec.parent != module:
        _collect(spec.parent, roots, sources)  # to import a module runs its package first
    for name in imported_names(
        ast.parse(source), module, spec.submodule_search_locations is not None
    ):
        root = name.partition(".")[0]
        if (root in roots or _is_outside_environment(root)) and _find(name) is not None:
            _collect(name, roots, sources)


def _is_outside_environment(package: str) -> bool:
    """Whether a top-level module lies neither in the standard library nor in site-packages."""
    spec = _find(package)
    if spec is None:
        return False
    # Without a location: built in, or a namespace package, which has folders instead.
    places = [spec.origin] if spec.has_location else spec.submodule_search_locations
    return bool(places) and not any(in_environment(place or "") for place in places or ())


def in_environment(path: str) -> bool:
    """Whether a path lies in the standard library or in site-packages."""
    return os.path.realpath(path).startswith(_installed())


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
        # Of `from a.b import c`, where `a.b` is no package: to look for `a.b.c` would run `a.b`.
        if parent_spec is None or parent_spec.submodule_search_locations is None:
            return None
    try:
        return importlib.util.find_spec(module)
    except (ModuleNotFoundError, ValueError):
        return None


def imported_names(tree: ast.Module, module: str, is_package: bool) -> Iterator[str]:
    """Names that may be modules: of `from a.b import c` both `a.b` and `a.b.c`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            if node.value.id == FACE and node.attr in face_modules():
                yield face_modules()[node.attr]
        elif isinstance(node, ast.ImportFrom):
            base = _absolute(node, module, is_package)
            yield base
            names = [alias.name for alias in node.names]
            yield from (f"{base}.{name}" for name in names)
            if base == FACE:
                yield from (face_modules()[name] for name in names if name in face_modules())


def _absolute(node: ast.ImportFrom, module: str, is_package: bool) -> str:
    if not node.level:
        return node.module or ""
    parents = module.split(".")
    kept = parents[: len(parents) - node.level + is_package]
    return ".".join([*kept, *([node.module] if node.module else [])])
