"""Finds packages of the user that a pipeline's nodes import and Penstock's image lacks."""

import importlib.metadata
import importlib.util
import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.components.errors import UsageError

if TYPE_CHECKING:
    from tfx.proto.orchestration import pipeline_pb2

# Fields of the IR that name code: an executor's class, `run_fn`, `preprocessing_fn`.
_CODE = re.compile(r"(^|\.)(class_path|\w*_fn)$")
_DOTTED = re.compile(r"[A-Za-z_]\w*(\.\w+)+")


def find_package(dotted: str) -> Path:
    """Returns the folder of the top-level package of a dotted path, or the file of a module."""
    name = re.split(r"[.:]", dotted)[0]
    spec = importlib.util.find_spec(name) if name.isidentifier() else None
    if spec is None or spec.origin is None:
        raise UsageError(f"no package {name!r}; run penstock from the folder that contains it")
    path = Path(spec.origin)
    return path.parent if spec.submodule_search_locations else path


def needed_packages(ir: "pipeline_pb2.Pipeline") -> list[str]:
    """Returns, sorted, packages whose code the nodes name and which Penstock does not require."""
    from penstock.pipelines.kubeflow.refusals import node_texts  # imports TFX

    named = {
        text.value.partition(".")[0]
        for text in node_texts(ir)
        if _CODE.search(text.field) and _DOTTED.fullmatch(text.value)
    }
    installed = importlib.metadata.packages_distributions()
    return sorted(
        name
        for name in named
        if not any(_canonical(one) in _required() for one in installed.get(name, ()))
    )


@cache
def _required() -> frozenset[str]:
    found: set[str] = set()
    wanted = ["penstock"]
    while wanted:
        name = _canonical(wanted.pop())
        if name not in found:
            found.add(name)
            try:
                requires = importlib.metadata.requires(name) or ()
            except importlib.metadata.PackageNotFoundError:
                continue  # required on another platform, or by an extra that is not installed
            wanted += [r for r in requires if name == "penstock" or "extra ==" not in r]
    return frozenset(found)


def _canonical(requirement: str) -> str:
    """Returns the normalised name in a requirement: `ml-metadata` for `Ml_Metadata[x]>=1`."""
    name = re.split(r"[^\w.-]", requirement, maxsplit=1)[0]
    return re.sub(r"[-_.]+", "-", name).lower()
