"""The pipeline's graph as places on a canvas: node facts in, plain geometry for a template out."""

from collections.abc import Sequence
from dataclasses import dataclass

from penstock.pipelines.reporting.graph import Edge, Layout, lay_out
from penstock.pipelines.reporting.numbers import duration
from penstock.pipelines.reporting.pipeline_facts import NOT_REACHED, SKIPPED, NodeFacts

_WIDTH, _HEIGHT = 172, 42
_SLOT, _LAYER = 190, 62
_MARGIN = 6
# An edge that another path implies bends out on the right, further for each layer it passes.
_BEND, _BEND_A_LAYER = 14, 7
_LONGEST_NAME = 22


@dataclass(frozen=True)
class NodeBox:
    """A node: its left upper corner, its texts and the class of its state."""

    name: str
    label: str
    state: str
    css: str
    x: float
    y: float


@dataclass(frozen=True)
class GraphView:
    """What a template draws, in pixels."""

    width: float
    height: float
    boxes: Sequence[NodeBox]
    edges: Sequence[str]
    implied: Sequence[str]
    node_width: int = _WIDTH
    node_height: int = _HEIGHT


def view_graph(nodes: Sequence[NodeFacts]) -> GraphView:
    """Place a pipeline's nodes and draw its edges as SVG paths."""
    layout = lay_out({node.name: node.upstream for node in nodes})
    bends = [_bend(edge) for edge in layout.edges if edge.is_implied]
    return GraphView(
        (layout.slots - 1) * _SLOT + _WIDTH + 2 * _MARGIN + max(bends, default=0),
        (layout.layers - 1) * _LAYER + _HEIGHT + 2 * _MARGIN,
        [_box(node, layout) for node in nodes],
        [_path(edge) for edge in layout.edges if not edge.is_implied],
        [_arc(edge) for edge in layout.edges if edge.is_implied],
    )


def _box(node: NodeFacts, layout: Layout) -> NodeBox:
    layer, slot = layout.places[node.name]
    label = node.name
    if len(label) > _LONGEST_NAME:
        label = f"{label[: _LONGEST_NAME - 1]}…"
    took = f" in {duration(node.seconds)}" if node.state in ("done", "failed") else ""
    css = "idle" if node.state in (NOT_REACHED, SKIPPED) else node.state
    x, y = _corner(layer, slot)
    return NodeBox(node.name, label, f"{node.state}{took}", css, x, y)


def _corner(layer: int, slot: float) -> tuple[float, float]:
    return _MARGIN + slot * _SLOT, _MARGIN + layer * _LAYER


def _path(edge: Edge) -> str:
    """From the middle of one node's lower side, through its bends, to the next one's upper side."""
    points = []
    for layer, slot in edge.path:
        x, y = _corner(layer, slot)
        points += [(x + _WIDTH / 2, y), (x + _WIDTH / 2, y + _HEIGHT)]
    points = points[1:-1]
    parts = [f"M{points[0][0]:g} {points[0][1]:g}"]
    for (x1, y1), (x2, y2) in zip(points[::2], points[1::2], strict=True):
        middle = (y1 + y2) / 2
        if parts[-1] != f"M{x1:g} {y1:g}":
            parts.append(f"L{x1:g} {y1:g}")
        parts.append(f"C{x1:g} {middle:g} {x2:g} {middle:g} {x2:g} {y2:g}")
    return "".join(parts)


def _bend(edge: Edge) -> float:
    layers = edge.path[-1][0] - edge.path[0][0]
    return _BEND + _BEND_A_LAYER * layers


def _arc(edge: Edge) -> str:
    """Around what lies between, on the right."""
    (x1, y1), (x2, y2) = (_corner(*edge.path[0]), _corner(*edge.path[-1]))
    right = max(x1, x2) + _WIDTH + 4 / 3 * _bend(edge)
    ends = [(x + _WIDTH, y + _HEIGHT / 2) for x, y in ((x1, y1), (x2, y2))]
    return (
        f"M{ends[0][0]:g} {ends[0][1]:g}C{right:g} {ends[0][1]:g} "
        f"{right:g} {ends[1][1]:g} {ends[1][0]:g} {ends[1][1]:g}"
    )
