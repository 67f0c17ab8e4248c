"""The share of Kubernetes' room for one object that a run of a pipeline takes.

KFP keeps a run in one Argo workflow. Argo fails it, in mid-run, where its JSON is longer than
1 MiB, the status of its nodes as base64 of gzip (argo-workflows `workflow/packer/packer.go`
compressWorkflow, `util/file/fileutil.go` CompressEncodeString). What a container is called with
stands in the workflow's arguments, in the status as input and output of its driver, and as input
of the two nodes of its executor; and KFP 2.17 has each of these retried (`templateDefaults` of its
`workflow-controller-configmap-patch.yaml`), so Argo keeps each a second time (`operator.go`
executeTemplate, NodeTypeRetry).
"""

from collections.abc import Iterable
from dataclasses import replace

from penstock.components.errors import UsageError
from penstock.pipelines.kubeflow.plan import Plan

_MAX_BYTES = 1 << 20
# Fitted to made workflows of that shape, of 10 to 300 nodes: what else a node takes, and how often
# a text counts. In gzip's window of 32 KiB a driver's output is a copy of its input; a longer text
# is not.
_WORKFLOW_BYTES, _NODE_BYTES = 12_000, 3_150
_COPIES, _COPIES_OF_LONG, _LONG_CHARS = 7.3, 9.3, 27_000
_PART_CHARS = 20_000


def fit(plan: Plan) -> Plan:
    """The plan, in a form whose run Argo does not fail for its size.

    Where the nodes' own parts are too large, the whole IR travels once, see `carried.py`: what
    nodes have in common is then there once.

    Raises:
        UsageError: It is too large in either form; names the largest node.
    """
    size = _bytes(len(task.inline_ir) for task in plan.tasks)
    if size <= _MAX_BYTES:
        return plan
    text = plan.ir
    parts = tuple(text[i : i + _PART_CHARS] for i in range(0, len(text), _PART_CHARS))
    size = min(size, _bytes([*map(len, parts), *(0 for _ in plan.tasks)]))
    if size <= _MAX_BYTES:
        return replace(plan, parts=parts)
    largest = max(plan.tasks, key=lambda task: len(task.inline_ir))
    raise UsageError(
        f"a run of these {len(plan.tasks)} nodes takes about {size / 1024:,.0f} KiB in Kubernetes, "
        f"where Argo fails one above {_MAX_BYTES >> 10:,} KiB; the largest is node "
        f"{largest.node_id!r} with {len(largest.inline_ir):,} characters of options, compressed: "
        "move large options into files of the image, or split the pipeline"
    )


def _bytes(lengths: Iterable[int]) -> float:
    """What a run takes whose pods are called with so many characters of IR each."""
    return _WORKFLOW_BYTES + sum(
        _NODE_BYTES + length * (_COPIES if length <= _LONG_CHARS else _COPIES_OF_LONG)
        for length in lengths
    )
