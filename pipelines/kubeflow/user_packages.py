"""Finds packages of the user that a pipeline's nodes import and Penstock's image lacks."""

import importlib.util
import re
import sysconfig
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.components.errors import UsageError

if TYPE_CHECKING:
    from tfx.proto.orchestration import pipeline_pb2

# Fields of the IR that name code: an executor's class, `run_fn`, `preprocessing_fn`.
_CODE = re.compile(r"(^|\.)(class_path|\w*_fn)$")
_DOTTED = re.compile(r"[A-Za-z_]\w*(\.\w+)+")
_OF_IMAGE = {"penstock", "tfx"}


def find_package(dotted: str) -> Path:
    """Returns the folder of the top-level package of a dotted path, or the file of a module."""
    name = re.split(r"[.:]", dotted)[0]
    spec = importlib.util.find_spec(name) if name.isidentifier() else None
    if spec is None:
        raise UsageError(f"no package {name!r}; run penstock from the folder that contains it")
    if spec.origin is None:  # a folder without __init__.py
        return Path(next(iter(spec.submodule_search_locations or ())))
    path = Path(spec.origin)
    return path.parent if spec.submodule_search_locations else path


def is_installed(path: str) -> bool:
    """Returns whether a file is in an installed package, which the image has too."""
    # In an editable install Penstock's rooms are outside of site-packages.
    rooms = [find_package("penstock").parent / r for r in ("components", "pipelines", "schemas")]
    sites = [Path(sysconfig.get_path(kind)) for kind in ("purelib", "platlib")]
    return any(Path(path).is_relative_to(folder) for folder in (*sites, *rooms))


def needed_packages(ir: "pipeline_pb2.Pipeline", pipeline: str) -> list[str]:
    """Returns the packages, sorted, of the pipeline and its nodes, without those of the image."""
    from penstock.pipelines.kubeflow.refusals import node_texts  # imports TFX

    named = {
        text.value
        for text in node_texts(ir)
        if _CODE.search(text.field) and _DOTTED.fullmatch(text.value)
    }
    return sorted({re.split(r"[.:]", one)[0] for one in (*named, pipeline) if one} - _OF_IMAGE)
