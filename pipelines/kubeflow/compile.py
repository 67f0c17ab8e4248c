"""Compiles a pipeline for Kubeflow, on any machine.

The pipeline is built here for its graph and its checks, and again by the first pod of each run from
the code in the image. Unless the options set a root, a folder below the placement's `pipeline_root`
replaces the root in the pipeline's config. Paths that only this machine has are rejected.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.pipelines.config.registry import find_pipeline, pipeline_path
from penstock.pipelines.kubeflow.compiled_file import check_output, needs_kubeflow
from penstock.pipelines.kubeflow.names import pipeline_name
from penstock.pipelines.kubeflow.placement import Placement, check_cache

if TYPE_CHECKING:
    from penstock.pipelines.kubeflow.plan import Plan


def compile(
    pipeline: str,
    output: str | os.PathLike[str],
    *,
    image: str,
    placement: Placement | None = None,
    options: Mapping[str, Any] | None = None,
    allow_mutable_tag: bool = False,
    overwrite: bool = False,
) -> "Plan":
    """Compile a pipeline to a file for Kubeflow Pipelines v2.

    Args:
        pipeline: Name of a pipeline, or `package.module:function`, see `run`.
        output: The `.yaml` file to make.
        image: Image that the pipeline's tasks run, as `NAME@sha256:...`.
        placement: Placement of the nodes and their resources.
        options: Changed options of the pipeline's config, as in `run`. If they do not set `root`,
            it becomes the folder with the pipeline's name below the placement's `pipeline_root`.
        allow_mutable_tag: Whether to accept an image by tag, which may change between two runs.
        overwrite: Replace a file at `output`.

    Returns:
        The tasks of the file.

    Raises:
        UsageError: The pipeline, the image, the placement or `output` cannot be used.
    """
    out, placement, changes = Path(output), placement or Placement(), options or {}
    check_output(image, out, allow_mutable_tag=allow_mutable_tag, overwrite=overwrite)
    # TFX and kfp take seconds to import, so a wrong image or output is reported before the imports.
    with needs_kubeflow():
        from penstock.pipelines.kubeflow.pipeline_yaml import write_kubeflow
    from penstock.pipelines.kubeflow.plan import plan_ir
    from penstock.pipelines.kubeflow.recipe import ROOT, Recipe, build_ir, graph_of, run_options
    from penstock.pipelines.kubeflow.refusals import check_changes, check_paths

    check_changes(changes, placement)
    factory = find_pipeline(pipeline, changes)
    check_cache(factory.config, placement)
    ir = build_ir(factory, {})
    root = None
    if hasattr(factory.config, ROOT):
        root = str(changes.get(ROOT) or placement.root_of(pipeline_name(ir.pipeline_info.id)))
        placement.check_on_volume(ROOT, root)
    path = pipeline_path(pipeline)
    check_paths(ir, placement, path)
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
    write_kubeflow(plan, out, image=image, placement=placement)
    return plan


def _shown(value: Any, placement: Placement) -> Any:
    """Returns an option's value for KFP's run form; "" for a local path that pods do not see."""
    is_path = isinstance(value, str) and os.path.isabs(value) and os.path.exists(value)
    return "" if is_path and not placement.sees(value) else value
