"""Portable paths of files in installed packages.

A pipeline compiled on a laptop holds the laptop's path `.../site-packages/tfx/examples/...`; in the
image the package has another folder. `python-package://tfx/examples/...` names the same file in any
environment.
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
# In an editable install these packages are outside of site-packages.
_OURS = ("penstock.components", "penstock.pipelines", "penstock.schemas")
# Boundaries of a folder's name within a text.
_END, _START = r"(?![\w.-])", r"(?<![\w./-])"


def mark_packages(text: str, more: Sequence[str] = ()) -> str:
    """Replaces folders of packages, installed or in `more`, by `python-package://NAME`."""
    for name in (*_OURS, *more):
        text = re.sub(f"{_START}{re.escape(_folder(name))}{_END}", _SCHEME + name, text)
    for site in {sysconfig.get_path(kind) for kind in ("purelib", "platlib")}:
        text = re.sub(rf"{_START}{re.escape(site)}/(\w+){_END}", _mark_installed, text)
    return text


def find_packages(text: str) -> str:
    """Replaces each `python-package://NAME` by its folder here."""
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
