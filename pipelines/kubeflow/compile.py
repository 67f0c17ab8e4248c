"""Compiles a pipeline for Kubeflow, on any machine.

Files of installed packages are looked up in the image, the pipeline's root becomes the placement's,
and paths that only this machine has are rejected.
"""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from tfx.proto.orchestration import pipeline_pb2

from penstock.pipelines.config.registry import PIPELINES, find_pipeline, pipeline_path
from penstock.pipelines.kubeflow.compiled_file import needs_kubeflow
from penstock.pipelines.kubeflow.ir import change_texts
from penstock.pipelines.kubeflow.names import pipeline_name
from penstock.pipelines.kubeflow.package_paths import mark_packages
from penstock.pipelines.kubeflow.placement import Placement
from penstock.pipelines.kubeflow.plan import Plan, plan_ir
from penstock.pipelines.kubeflow.recipe import ROOT, Recipe, build_ir, run_options
from penstock.pipelines.kubeflow.refusals import check_paths
from penstock.pipelines.kubeflow.user_packages import find_package


def compile_pipeline(
    name: str,
    changes: Mapping[str, Any],
    out: Path,
    *,
    image: str,
    placement: Placement,
    allow_mutable_tag: bool,
) -> Plan:
    """Compiles a pipeline, by name or dotted path (see `find_pipeline`), to a file.

    If its config has a `root` and `changes` do not set it, it becomes `PIPELINE_ROOT/NAME` of the
    placement.
    """
    with needs_kubeflow():
        from penstock.pipelines.kubeflow.pipeline_yaml import write_kubeflow
    recipe, ir = _compile(name, changes, placement)
    own = _own_packages(name)
    change_texts(ir, lambda text: mark_packages(text, own))
    check_paths(ir, placement)
    plan = plan_ir(ir, fuse=placement.fuse, alone=placement.alone(), recipe=recipe)
    plan = replace(plan, recipe=mark_packages(plan.recipe, own))
    write_kubeflow(plan, out, image=image, placement=placement, allow_mutable_tag=allow_mutable_tag)
    return plan


def _own_packages(name: str) -> list[str]:
    package = find_package(pipeline_path(name))
    return [package.name] if package.is_dir() and name not in PIPELINES else []


def _compile(
    name: str, changes: Mapping[str, Any], placement: Placement
) -> tuple[Recipe, pipeline_pb2.Pipeline]:
    factory = find_pipeline(name, changes)
    recipe = Recipe(pipeline_path(name), changes, options=run_options(factory.config))
    ir, stand_in = build_ir(factory, {})
    if not hasattr(factory.config, ROOT):
        return recipe, ir
    root = str(changes.get(ROOT) or placement.root_of(pipeline_name(ir.pipeline_info.id)))
    placement.check_on_volume(ROOT, root)
    change_texts(ir, lambda text: text.replace(stand_in, root))
    return replace(recipe, root=root), ir
