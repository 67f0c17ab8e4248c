"""What `penstock compile` does once its options are known."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from penstock.components.errors import UsageError
from penstock.pipelines.kubeflow_plan import Plan
from penstock.pipelines.kubeflow_planner import plan_pipeline
from penstock.pipelines.placement import Placement
from penstock.pipelines.registry import find_pipeline


def compile_pipeline(
    name: str,
    changes: Mapping[str, Any],
    out: Path,
    *,
    image: str,
    placement: Placement,
    allow_mutable_tag: bool,
) -> Plan:
    """Compile a pipeline by name or dotted path, see `find_pipeline`, to a file.

    Raises:
        UsageError: The pipeline, the image or the placement cannot be used.
    """
    try:
        from penstock.pipelines.kubeflow import write_kubeflow
    except ModuleNotFoundError as error:
        raise UsageError(
            f"no module {error.name!r}; install the extra: pip install 'penstock[kubeflow]'"
        ) from error
    plan = plan_pipeline(find_pipeline(name, changes).make())
    write_kubeflow(plan, out, image=image, placement=placement, allow_mutable_tag=allow_mutable_tag)
    return plan
