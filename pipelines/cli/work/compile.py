"""Work of `penstock compile`, on any machine.

Files of installed packages are looked up in the image, the pipeline's root becomes the placement's,
and paths that only this machine has are rejected.
"""

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tfx.proto.orchestration import pipeline_pb2

from penstock.pipelines.config.registry import PIPELINES, find_pipeline, pipeline_path
from penstock.pipelines.kubeflow.compiled_file import needs_kubeflow
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
    """Compiles a pipeline by name or dotted path, see `find_pipeline`, to a file.

    A `root` in its config becomes `PIPELINE_ROOT/NAME` of the placement unless `changes` have one.
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
    package = find_package(pipeline_path(name))
    return [package.name] if package.is_dir() and name not in PIPELINES else []


def compile_component(name: str, out: Path, *, image: str, allow_mutable_tag: bool) -> None:
    """Compiles a plain component to a file; UsageError if the image or file cannot be used."""
    with needs_kubeflow():
        from penstock.pipelines.kubeflow.plain.definitions import write_component
    write_component(name, out, image=image, allow_mutable_tag=allow_mutable_tag)


def _compile(name: str, changes: Mapping[str, Any], placement: Placement) -> pipeline_pb2.Pipeline:
    factory = find_pipeline(name, changes)
    if not hasattr(factory.config, _ROOT):
        return compile_ir(factory.make())
    # TFX creates the folder of the metadata store while the pipeline is built, but this machine may
    # not have the containers' paths: so it is built with a temporary root, which is replaced.
    with tempfile.TemporaryDirectory(prefix="penstock-compile-") as stand_in:
        ir = compile_ir(find_pipeline(name, {**changes, _ROOT: stand_in}).make())
    root = str(changes.get(_ROOT) or placement.root_of(pipeline_name(ir.pipeline_info.id)))
    placement.check_on_volume(_ROOT, root)
    change_texts(ir, lambda text: text.replace(stand_in, root))
    return ir
