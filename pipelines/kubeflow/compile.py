"""Compiles a pipeline for Kubeflow, on any machine.

The pipeline is built here for its graph and its checks, and again by the first pod of each run from
the code in the image. The pipeline's root becomes the placement's, and paths that only this machine
has are rejected.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from penstock.pipelines.config.registry import find_pipeline, pipeline_path
from penstock.pipelines.kubeflow.compiled_file import check_image, check_yaml, needs_kubeflow
from penstock.pipelines.kubeflow.ir import change_texts
from penstock.pipelines.kubeflow.names import pipeline_name
from penstock.pipelines.kubeflow.placement import Placement, check_config
from penstock.pipelines.kubeflow.plan import Plan, plan_ir
from penstock.pipelines.kubeflow.recipe import ROOT, Recipe, build_ir, graph_of, run_options
from penstock.pipelines.kubeflow.refusals import check_changes, check_paths


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
    check_image(image, allow_mutable_tag)
    check_yaml(out)
    factory = find_pipeline(name, changes)
    check_config(factory.config, placement)
    ir, stand_in = build_ir(factory, {})
    root = None
    if hasattr(factory.config, ROOT):
        root = str(changes.get(ROOT) or placement.root_of(pipeline_name(ir.pipeline_info.id)))
        placement.check_on_volume(ROOT, root)
        change_texts(ir, lambda text: text.replace(stand_in, str(root)))
    path = pipeline_path(name)
    check_paths(ir, placement, path)
    check_changes(changes, placement)
    plan = plan_ir(
        ir,
        fuse=placement.fuse,
        alone=placement.alone(),
        recipe=Recipe(path, changes, graph_of(ir), root),
        options={
            option: _shown(value, placement)
            for option, value in run_options(factory.config).items()
        },
    )
    write_kubeflow(plan, out, image=image, placement=placement, allow_mutable_tag=allow_mutable_tag)
    return plan


def _shown(value: Any, placement: Placement) -> Any:
    """Returns an option's value for the run's form: "" for a path that pods have elsewhere."""
    is_path = isinstance(value, str) and os.path.isabs(value) and os.path.exists(value)
    return "" if is_path and not placement.sees(value) else value
