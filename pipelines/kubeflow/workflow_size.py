"""The share of Kubernetes' room for one object that a run of a compiled pipeline takes.

KFP keeps a run in one Argo workflow. Argo fails a workflow whose spec and compressed status take
more than 1 MiB (argo-workflows `workflow/packer/packer.go`), which a large pipeline reaches in
mid-run: a container's arguments stand in the workflow's arguments, and in the status as input and
output of its driver and as input of three nodes of its executor.
"""

from collections.abc import Mapping
from typing import Any

from penstock.components.errors import UsageError

_MAX_BYTES = 1 << 20
# Fitted to KFP 2.17's own compiler and a full status, compressed as Argo does it: 200 small nodes
# take 767 KiB, 300 take 1,141 KiB, three of 80 kB each 1,142 KiB. The taxi pipeline takes 64 KiB
# and is reckoned at 90: what compresses better than these is overrated.
_WORKFLOW_BYTES, _NODE_BYTES, _COPIES = 20_000, 1_350, 4.75


def check_size(spec: Mapping[str, Any], node_ids: Mapping[str, str]) -> None:
    """Refuse a pipeline whose run Argo would fail for its size.

    Args:
        spec: The compiled pipeline.
        node_ids: By a task's name, its node.

    Raises:
        UsageError: It is too large; names the largest node.
    """
    executors = spec["deploymentSpec"]["executors"]
    sizes = {
        node_id: sum(map(len, executors[f"exec-{name}"]["container"]["args"]))
        for name, node_id in node_ids.items()
    }
    size = _WORKFLOW_BYTES + len(sizes) * _NODE_BYTES + _COPIES * sum(sizes.values())
    if size > _MAX_BYTES:
        largest = max(sizes, key=lambda node_id: sizes[node_id])
        raise UsageError(
            f"a run of these {len(sizes)} nodes takes about {size / 1024:,.0f} KiB in Kubernetes, "
            f"where Argo fails one above {_MAX_BYTES >> 10:,} KiB; the largest is node "
            f"{largest!r} with {sizes[largest]:,} characters of arguments: move large options into "
            "files of the image, or split the pipeline"
        )
