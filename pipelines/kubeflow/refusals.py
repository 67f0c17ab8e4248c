"""Checks that a compiled pipeline contains no secrets and no paths of this machine.

Kubeflow stores a compiled pipeline and shows it in its UI, and users keep it in git. Passwords
belong in a Kubernetes secret or an environment variable; the pipeline contains only the name of
that secret or variable. Options are texts, protos, or texts that contain protos or JSON; all of
these are unpacked.
"""

import importlib.util
import json
import os
import re
import sysconfig
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from google.protobuf import json_format
from tfx.proto.orchestration import executable_spec_pb2, pipeline_pb2

from penstock.components.errors import UsageError
from penstock.components.files.secrets import secret_kind
from penstock.pipelines.kubeflow import ir as irs
from penstock.pipelines.kubeflow.placement import Placement, is_below

# An absolute path at the start of a text, or after `file://`, a space, a quote, `=`, `,` or `@`.
_PATH = re.compile(r"(?:^|file://|[\s=,@'\"])(/[^\s,'\"@]+)")
# Fields of the IR that name code: the class of an executor, `run_fn`, `preprocessing_fn`.
_CODE = re.compile(r"(^|\.)(class_path|\w*_fn)$")
_DOTTED = re.compile(r"[A-Za-z_]\w*(\.\w+)+")
_OF_IMAGE = {"penstock", "tfx"}
_GLOB = re.compile(r"[*?\[{]")
_SECRET = (
    "{}: looks like {} in clear text; take it from an environment variable, which a Kubernetes "
    "secret fills on Kubeflow"
)
# Paths that every container has.
_EVERYWHERE = ("/", "/tmp", "/dev/null", "/dev/shm")
_EMBEDDED_PARAMETER = re.compile(r'"__class__\\*": \\*"RuntimeParameter')
_INFRA_VALIDATOR = ".infra_validator.component.InfraValidator"
# Operator to which TFX compiles ForEach and `ops.Unnest`.
_UNNEST = "tfx.internal.Unnest"
_CONTAINER_SPEC = executable_spec_pb2.ContainerExecutableSpec.DESCRIPTOR
# Fields of the IR that error messages omit from the path of an option, because the author of the
# pipeline does not know them.
_PASSED_THROUGH = ("parameters", "field_value", "string_value", "proto_value", "default_value")


def check_no_secrets(ir: pipeline_pb2.Pipeline) -> None:
    """Rejects a pipeline with a secret in an option of a node, such as a query or an address."""
    for node_id, field, value in node_texts(ir):
        if kind := secret_kind(field, value):
            raise UsageError(_SECRET.format(f"node {node_id!r}, {field}", kind))


def check_runs_in_container(ir: pipeline_pb2.Pipeline, node: pipeline_pb2.PipelineNode) -> None:
    """Rejects a node that TFX's launcher cannot run in a container."""
    node_id = node.node_info.id
    executors = irs.deployment_config(ir).executor_specs
    if node_id in executors and executors[node_id].Is(_CONTAINER_SPEC):
        raise UsageError(
            f"node {node_id!r} brings a container of its own, which cannot run inside another; "
            "write it as a Python component"
        )
    if node.node_info.type.name.endswith(_INFRA_VALIDATOR):
        serving = json.loads(node.parameters.parameters["serving_spec"].field_value.string_value)
        platform = "Docker" if "local_docker" in serving else "the right to create pods"
        raise UsageError(
            f"node {node_id!r} is an InfraValidator, which needs {platform}, and pods of runs have "
            "none; penstock.nodes.ServingCheck loads the model in its own process"
        )
    for graph in node.inputs.input_graphs.values():
        if any(one.op_node.op_type == _UNNEST for one in graph.nodes.values()):
            raise UsageError(
                f"node {node_id!r} is within a ForEach, and TFX's launcher runs only one turn; "
                "give the node all artifacts, or write a node for each"
            )
    for key, parameter in node.parameters.parameters.items():
        if _EMBEDDED_PARAMETER.search(parameter.field_value.string_value):
            raise UsageError(
                f"node {node_id!r}, {key}: a RuntimeParameter within another value is never "
                "filled in; give it as the whole value of an option"
            )


def check_paths(ir: pipeline_pb2.Pipeline, placement: Placement, pipeline: str) -> None:
    """Rejects paths of this machine that are not on the volume, in a package or in `image_paths`.

    The image is expected to have the installed packages, the package of the `pipeline` (a dotted
    path) and the Python modules in the folder that contains this package, such as a `module_file`.
    """
    own, installed = _find_package(pipeline), _find_package("penstock").parent
    # In an editable install, these folders of Penstock are outside site-packages.
    rooms = [installed / room for room in ("components", "pipelines", "schemas")]
    sites = [sysconfig.get_path(kind) for kind in ("purelib", "platlib")]
    in_image = [str(folder) for folder in (own, *rooms, *sites)]
    for node_id, field, value in node_texts(ir):
        for path in _paths(value):
            is_module = path.endswith(".py") and is_below(path, str(own.parent))
            if not is_module and not any(is_below(path, folder) for folder in in_image):
                _check_path(path, f"node {node_id!r}, {field}", placement)


def check_changes(changes: Mapping[str, Any], placement: Placement) -> None:
    """Rejects changed options that contain a secret, or a path that only this machine has.

    The compiled file would contain these options.
    """
    for field, value in _of_value(changes, ""):
        if kind := secret_kind(field, value):
            raise UsageError(_SECRET.format(field, kind))
        for path in _paths(value):
            _check_path(path, field, placement)


def _find_package(dotted: str) -> Path:
    """Returns the folder of a dotted path's top-level package, or its file if it is a module."""
    name = re.split(r"[.:]", dotted)[0]
    spec = importlib.util.find_spec(name) if name.isidentifier() else None
    if spec is None:
        raise UsageError(f"no package {name!r}; run penstock from the folder that contains it")
    if spec.origin is None:  # a folder without __init__.py
        return Path(next(iter(spec.submodule_search_locations or ())))
    path = Path(spec.origin)
    return path.parent if spec.submodule_search_locations else path


def needed_packages(ir: pipeline_pb2.Pipeline, pipeline: str) -> list[str]:
    """Returns the packages of the pipeline and its nodes, sorted, without Penstock and TFX."""
    texts = node_texts(ir)
    named = [text for _, field, text in texts if _CODE.search(field) and _DOTTED.fullmatch(text)]
    return sorted({re.split(r"[.:]", one)[0] for one in (*named, pipeline) if one} - _OF_IMAGE)


def _check_path(path: str, where: str, placement: Placement) -> None:
    if os.path.exists(path) and not placement.sees(path):
        raise UsageError(
            f"{where}: {path} is a path of this machine, which containers do not see; put it on "
            "the volume, into a bucket or into the pipeline's package, or name it in the "
            "placement's image_paths if the image has it too"
        )


def _paths(text: str) -> Iterator[str]:
    for path in _PATH.findall(text):
        if glob := _GLOB.search(path):
            path = os.path.dirname(path[: glob.start()])
        if os.path.normpath(path) not in _EVERYWHERE:
            yield path


def node_texts(ir: pipeline_pb2.Pipeline) -> Iterator[tuple[str, str, str]]:
    """Yields (node id, path of the field, value as text) of nodes, their executors and drivers.

    Values inside JSON texts and `Any` are unpacked; booleans are left out.
    """
    tree = json_format.MessageToDict(ir, preserving_proto_field_name=True)
    deployment = tree.get("deployment_config", {})
    for node in (one["pipeline_node"] for one in tree.get("nodes", ())):
        node_id = node["node_info"]["id"]
        found = [*_of_value(node, "")]
        for specs in ("executor_specs", "custom_driver_specs"):
            found += _of_value(deployment.get(specs, {}).get(node_id, {}), "executor")
        yield from ((node_id, field, value) for field, value in found)


def _of_value(value: Any, path: str) -> Iterator[tuple[str, str]]:
    loaded = _loads(value) if isinstance(value, str) else value
    if isinstance(loaded, dict):
        for key, item in loaded.items():
            name = item["name"] if key == "runtime_parameter" else str(key)
            yield from _of_value(item, path if key in _PASSED_THROUGH else _join(path, name))
    elif isinstance(loaded, Sequence) and not isinstance(loaded, str):
        previous = ""
        for item in loaded:
            # Two successive items of a list may be a flag and its value.
            is_value = isinstance(item, str) and previous.startswith("-")
            yield from _of_value(item, _join(path, previous) if is_value else path)
            previous = item if isinstance(item, str) and "=" not in item else ""
    elif not isinstance(loaded, bool):
        yield path, str(loaded)


def _loads(text: str) -> Any:
    with suppress(ValueError):
        if text.lstrip()[:1] in ("{", "["):
            return json.loads(text)
    return text


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name
