"""The files that the making of a pipeline rests on, and whether it can rest on anything else."""

import ast
import os
import sys
from collections.abc import Iterator, Set
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penstock.pipelines.config.code_digest import FACE, imported_names, in_environment

# What gives the same for the same arguments and files, and reads files by `open` alone.
_SETTLED = """
    __future__ abc collections dataclasses enum functools itertools json math pathlib re string
    typing google penstock tensorflow_model_analysis tfx
"""
# Names of these that look at more than files that are opened.
_UNSETTLED = """
    exists is_dir is_file is_mount is_symlink stat lstat samefile glob rglob iterdir walk
    fileio gfile Metadata load_eval_result load_eval_results eval exec __import__
    Rows predict export_shards penstock.inspect penstock.ingest penstock.pack penstock.report
    penstock.run penstock.verify
"""

_opened: set[str] | None = None
_is_hooked = False


@dataclass
class MadeFrom:
    """What was loaded and read while a pipeline was made, the Python environment left out.

    Attributes:
        files: The user's modules, their folders (with a slash: a file that comes there may take a
            module's place), and what else was opened to be read.
        is_settled: Whether these alone decide, as far as one can know: no module of the user's
            can see the clock, the network, or whether a file is there.
    """

    files: Set[str] = frozenset()
    is_settled: bool = False


@contextmanager
def watch_making() -> Iterator[MadeFrom]:
    """Watch the making of a pipeline in the block; what it was made from is known after it."""
    global _opened, _is_hooked
    if not _is_hooked:
        sys.addaudithook(_on_event)  # which Python never takes away again
        _is_hooked = True
    before, made = {*map(id, sys.modules.values())}, MadeFrom()
    _opened = set()
    try:
        yield made
    finally:
        opened, _opened = _opened, None
    own = {
        name: file
        for name, file in module_files()
        if id(sys.modules[name]) not in before
        and name.partition(".")[0] != FACE
        and not in_environment(file)
    }
    made.is_settled = all(_is_settled(name, Path(file), set(own)) for name, file in own.items())
    read = {file for file in opened if not in_environment(file)}
    made.files = {*read, *own.values(), *(f"{os.path.dirname(file)}/" for file in own.values())}


def module_files() -> list[tuple[str, str]]:
    """All modules that are loaded, and their files."""
    files = [(name, getattr(module, "__file__", None)) for name, module in [*sys.modules.items()]]
    return [(name, file) for name, file in files if file]


def _is_settled(module: str, file: Path, own: set[str]) -> bool:
    if file.suffix != ".py":
        return False  # compiled
    tree = ast.parse(file.read_bytes())
    imported = set(imported_names(tree, module, file.name == "__init__.py"))
    used = imported | {name.rpartition(".")[2] for name in imported}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            used |= {node.attr, f"{getattr(node.value, 'id', '')}.{node.attr}"}
        elif isinstance(node, ast.Name):
            used.add(node.id)
    roots = {name.partition(".")[0] for name in imported}
    settled = {*_SETTLED.split(), *(name.partition(".")[0] for name in own)}
    return used.isdisjoint(_UNSETTLED.split()) and roots <= settled


def _on_event(event: str, arguments: tuple[Any, ...]) -> None:
    if _opened is None or event != "open" or not isinstance(arguments[0], (str, bytes)):
        return
    path, _, flags = arguments
    name = os.path.abspath(os.fsdecode(path))
    is_data = not name.endswith(".pyc") and not name.startswith(("/dev/", "/proc/", "/sys/"))
    if is_data and not flags & (os.O_WRONLY | os.O_RDWR):
        _opened.add(name)
