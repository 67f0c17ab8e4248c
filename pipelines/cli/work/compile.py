"""The work of `penstock compile`.

It need not run where the pipeline will: files of installed packages are found again in the image,
the pipeline's root is moved to the placement's, and what only this machine has is refused.
"""

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tfx.proto.orchestration import pipeline_pb2

from penstock.pipelines.config.registry import find_pipeline
from penstock.pipelines.kubeflow.extra import needs_kubeflow
from penstock.pipelines.kubeflow.ir import compile_ir
from penstock.pipelines.kubeflow.names import pipeline_name
from penstock.pipelines.kubeflow.package_paths import mark_packages
from penstock.pipelines.kubeflow.placement import Placement
from penstock.pipelines.kubeflow.plan import Plan, plan_ir
from penstock.pipelines.kubeflow.proto_texts import change_texts
from penstock.pipelines.kubeflow.refusals import check_paths
from penstock.pipelines.kubeflow.user_packages import find_package

_ROOT = "root"


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

    Where its config has a `root`, that is `PIPELINE_ROOT/NAME` of the placement unless `changes`
    say another.

    Raises:
        UsageError: The pipeline, the image or the placement cannot be used.
    """
    with needs_kubeflow():
        from penstock.pipelines.kubeflow.pipeline_yaml import write_kubeflow
    ir = _compile(name, changes, placement)
    own = _own_packages(name)
    change_texts(ir, lambda text: mark_packages(text, own))
    check_paths(ir, placement)
    plan = plan_ir(ir)
    write_kubeflow(plan, out, image=image, placement=placement, allow_mutable_tag=allow_mutable_tag)
    return plan


def _own_packages(name: str) -> list[str]:
    """The user's package, by a pipeline's dotted path; files in it are found in the image too."""
    if ":" not in name:
        return []
    package = find_package(name)
    return [package.name] if package.is_dir() else []


def compile_component(name: str, out: Path, *, image: str, allow_mutable_tag: bool) -> None:
    """Compile a plain component to a file; UsageError if the image or the file cannot be used."""
    with needs_kubeflow():
        from penstock.pipelines.kubeflow.plain.definitions import write_component
    write_component(name, out, image=image, allow_mutable_tag=allow_mutable_tag)


def _compile(name: str, changes: Mapping[str, Any], placement: Placement) -> pipeline_pb2.Pipeline:
    factory = find_pipeline(name, changes)
    if not hasattr(factory.config, _ROOT):
        return compile_ir(factory.make())
    # TFX makes the folder of the metadata store as soon as a pipeline names it. That one is for
    # the containers to make, so the pipeline is made with a folder that stands in for it.
    with tempfile.TemporaryDirectory(prefix="penstock-compile-") as stand_in:
        ir = compile_ir(find_pipeline(name, {**changes, _ROOT: stand_in}).make())
    root = str(changes.get(_ROOT) or placement.root_of(pipeline_name(ir.pipeline_info.id)))
    placement.check_on_volume(_ROOT, root)
    change_texts(ir, lambda text: text.replace(stand_in, root))
    return ir
