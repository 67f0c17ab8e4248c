"""The pipeline's graph as places on a canvas: node facts in, plain geometry for a template out.

Nodes stand one below the other, in the order in which they began. That a node waits for another is
a line from the node right above it, else an arc on the right, wider the more nodes it passes.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from penstock.pipelines.reporting.numbers import duration
from penstock.pipelines.reporting.pipeline_facts import NOT_REACHED, SKIPPED, NodeFacts

_WIDTH, _HEIGHT, _ROW = 172, 42, 58
_MARGIN = 6
_BEND, _BEND_A_ROW = 14, 7
_LONGEST_NAME = 22


@dataclass(frozen=True)
class NodeBox:
    """A node: its upper side, its texts and the class of its state."""

    name: str
    label: str
    state: str
    css: str
    y: int


@dataclass(frozen=True)
class GraphView:
    """What a template draws, in pixels; edges are SVG paths."""

    width: float
    height: int
    boxes: Sequence[NodeBox]
    edges: Sequence[str]
    left: int = _MARGIN
    node_width: int = _WIDTH
    node_height: int = _HEIGHT


def view_graph(nodes: Sequence[NodeFacts]) -> GraphView:
    """Place a pipeline's nodes and draw its edges."""
    rows = {node.node: row for row, node in enumerate(nodes)}
    edges = [(rows[up], rows[n.node]) for n in nodes for up in n.upstream if up in rows]
    return GraphView(
        _WIDTH + 2 * _MARGIN + max((_bend(*edge) for edge in edges), default=0),
        _ROW * len(nodes) - _ROW + _HEIGHT + 2 * _MARGIN,
        [_box(node, _top(row)) for row, node in enumerate(nodes)],
        [_path(*edge) for edge in edges],
    )


def _box(node: NodeFacts, y: int) -> NodeBox:
    label = node.node
    if len(label) > _LONGEST_NAME:
        label = f"{label[: _LONGEST_NAME - 1]}…"
    took = f" in {duration(node.seconds)}" if node.state in ("done", "failed") else ""
    css = "idle" if node.state in (NOT_REACHED, SKIPPED) else node.state
    return NodeBox(node.node, label, f"{node.state}{took}", css, y)


def _top(row: int) -> int:
    return _MARGIN + _ROW * row


def _bend(source: int, target: int) -> int:
    return 0 if target == source + 1 else _BEND + _BEND_A_ROW * abs(target - source)


def _path(source: int, target: int) -> str:
    bend = _bend(source, target)
    if not bend:
        return f"M{_MARGIN + _WIDTH // 2} {_top(source) + _HEIGHT}V{_top(target)}"
    side, far = _MARGIN + _WIDTH, _MARGIN + _WIDTH + 4 / 3 * bend
    begin, end = (_top(row) + _HEIGHT // 2 for row in (source, target))
    return f"M{side} {begin}C{far:g} {begin} {far:g} {end} {side} {end}"
