"""What a compiled pipeline must not hold: secrets in clear text, paths of this machine alone.

A compiled pipeline is stored by Kubeflow, shown in its UI and kept in git. Passwords belong in a
Kubernetes secret or an environment variable of the container; the pipeline names them only.
"""

import os
import re
from collections.abc import Iterator

from tfx.proto.orchestration import pipeline_pb2

from penstock.components.errors import UsageError
from penstock.components.files.secrets import secret_kind
from penstock.pipelines.kubeflow.ir_texts import node_texts
from penstock.pipelines.kubeflow.package_paths import mark_packages
from penstock.pipelines.kubeflow.placement import Placement

# An absolute path at the start of a text, or as a value within one.
_PATH = re.compile(r"(?:^|file://|[\s=,@'\"])(/[^\s,'\"@]+)")
_GLOB = re.compile(r"[*?\[{]")
# Every container has its own.
_EVERYWHERE = ("/", "/tmp", "/dev/null", "/dev/shm")


def check_no_secrets(ir: pipeline_pb2.Pipeline) -> None:
    """Refuse a pipeline that holds a secret in clear text.

    All options of all nodes are looked at: queries, custom_config, Beam arguments, addresses.

    Raises:
        UsageError: There is one; says in which node and field and what it looks like, but not
            its value.
    """
    for text in node_texts(ir):
        if kind := secret_kind(text.field, text.value):
            raise UsageError(
                f"node {text.node_id!r}, {text.field}: looks like {kind} in clear text; "
                "take it from an environment variable that a Kubernetes secret fills"
            )


def check_paths(ir: pipeline_pb2.Pipeline, placement: Placement) -> None:
    """Refuse a pipeline that reads or writes where its containers have nothing.

    A path is taken for this machine's where it exists here, and is neither on the volume nor
    in an installed package nor in `placement.image_paths`.

    Raises:
        UsageError: There is one; says in which node and option.
    """
    shared = [*placement.image_paths]
    if placement.volume:
        shared.append(placement.volume.mount_path)
    for text in node_texts(ir):
        for path in _paths(mark_packages(text.value)):
            if os.path.exists(path) and not any(_is_below(path, folder) for folder in shared):
                raise UsageError(
                    f"node {text.node_id!r}, {text.field}: {path} is a path of this machine, which "
                    "containers do not see; put it on the volume, into a bucket or a package, or "
                    "name it in the placement's image_paths if the image has it too"
                )


def _paths(text: str) -> Iterator[str]:
    for path in _PATH.findall(text):
        if glob := _GLOB.search(path):
            path = os.path.dirname(path[: glob.start()])
        if os.path.normpath(path) not in _EVERYWHERE:
            yield path


def _is_below(path: str, folder: str) -> bool:
    return f"{os.path.normpath(path)}/".startswith(f"{folder.rstrip('/')}/")
