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
def face_modules(face: str = FACE) -> dict[str, str]:
    """The module that defines each name of `penstock` or of one of its public submodules.

    Read from the stub, since the names are loaded lazily.
    """
    folder = Path(penstock.__file__).parent
    stub = folder / f"{'__init__' if face == FACE else face.removeprefix(f'{FACE}.')}.pyi"
    return {
        alias.name: f"{FACE}.{node.module}"
        for node in ast.parse(stub.read_text(encoding="utf-8")).body
        if isinstance(node, ast.ImportFrom) and node.module
        for alias in node.names
    }


@functools.cache
def faces() -> tuple[str, ...]:
    """`penstock` and its public submodules, each with a stub."""
    folder = Path(penstock.__file__).parent
    rooms = sorted(path.stem for path in folder.glob("*.pyi") if path.stem != "__init__")
    return (FACE, *(f"{FACE}.{room}" for room in rooms))


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
    for name in _imported_names(source, module, spec.submodule_search_locations is not None):
        root = name.partition(".")[0]
        if (root in roots or _is_outside_environment(root)) and _find(name) is not None:
            _collect(name, roots, sources)


def _is_outside_environment(package: str) -> bool:
    spec = _find(package)
    if spec is None:
        return False
    # Without a location: built in, or a namespace package, which has folders instead.
    places = [spec.origin] if spec.has_location else spec.submodule_search_locations
    return bool(places) and not any(in_environment(place or "") for place in places or ())


def in_environment(path: str) -> bool:
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
    used: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = _absolute(node, module, is_package)
            names = [base, *(f"{base}.{alias.name}" for alias in node.names)]
            if base in faces():
                defined = face_modules(base)
                yield from (defined[a.name] for a in node.names if a.name in defined)
        else:
            continue
        yield from names
        used |= {name for name in names if name.partition(".")[0] == FACE}
    if used & set(faces()):
        yield from _face_attributes(tree)


def _face_attributes(tree: ast.Module) -> Iterator[str]:
    """Modules of the public names that stand behind a dot, as in `penstock.training.train`.

    Which variable the name is read from is not followed: a module too many costs a cache hit at
    most.
    """
    attributes = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    for face in faces():
        yield from (module for name, module in face_modules(face).items() if name in attributes)


def _absolute(node: ast.ImportFrom, module: str, is_package: bool) -> str:
    if not node.level:
        return node.module or ""
    parents = module.split(".")
    kept = parents[: len(parents) - node.level + is_package]
    return ".".join([*kept, *([node.module] if node.module else [])])
