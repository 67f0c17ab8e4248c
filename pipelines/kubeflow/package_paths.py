"""Paths of files in installed packages, written so that another machine finds its own.

A pipeline that is compiled on a laptop names the laptop's `.../site-packages/tfx/examples/...`;
in the image that folder lies elsewhere. `python-package://tfx/examples/...` means the same file in
whatever environment reads it.
"""

import importlib.util
import re
import sysconfig
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from penstock.components.errors import DataError

_SCHEME = "python-package://"
_MARKED = re.compile(rf"{_SCHEME}(\w+(?:\.\w+)*)")
# Installed as editable, they lie outside of site-packages.
_OURS = ("penstock.components", "penstock.pipelines", "penstock.schemas")
# What ends a folder's name within a text, and cannot stand before a path.
_END, _START = r"(?![\w.-])", r"(?<![\w./-])"


def mark_packages(text: str, more: Sequence[str] = ()) -> str:
    """`text` with the folder of each package as `python-package://NAME`.

    To the installed ones and our own come `more`, as the user's in the working folder.
    """
    for name in (*_OURS, *more):
        text = re.sub(f"{_START}{re.escape(_folder(name))}{_END}", _SCHEME + name, text)
    for site in {sysconfig.get_path(kind) for kind in ("purelib", "platlib")}:
        text = re.sub(rf"{_START}{re.escape(site)}/(\w+){_END}", _mark_installed, text)
    return text


def find_packages(text: str) -> str:
    """`text` with each `python-package://NAME` as its folder here; DataError without that."""
    return _MARKED.sub(lambda match: _folder(match[1]), text)


def _mark_installed(match: re.Match[str]) -> str:
    return _SCHEME + match[1] if Path(match[0], "__init__.py").exists() else match[0]


@cache
def _folder(package: str) -> str:
    try:
        spec = importlib.util.find_spec(package)
    except ModuleNotFoundError:
        spec = None
    if spec is None or not spec.submodule_search_locations:
        raise DataError(
            f"the pipeline reads a file of the package {package!r}, which is not installed here; "
            "build it into the image"
        )
    return next(iter(spec.submodule_search_locations))
