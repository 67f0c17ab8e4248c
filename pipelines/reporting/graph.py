"""Layered layout of a DAG: boxes in rows from top to bottom, arrows between them.

Input: the nodes that each node waits for. Output: positions in pixels. The method is that of
Sugiyama, Tagawa and Toda (1981): layers by longest path, and a place for a long arrow in each layer
that it passes. Within a layer, places are ordered by the barycentre of their upper neighbours.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

BOX_WIDTH, BOX_HEIGHT = 172, 42
_GAP, _LAYER_GAP, _MARGIN = 22, 34, 6

# A node's name, or (from, to, layer) of the place where a long arrow passes a layer.
_Place = str | tuple[str, str, int]


@dataclass(frozen=True)
class Drawing:
    """Upper left corners of the boxes by name, and SVG paths of the arrows."""

    width: float
    height: float
    boxes: Mapping[str, tuple[float, float]]
    arrows: Sequence[str]


def draw(upstream: Mapping[str, Sequence[str]]) -> Drawing:
    """Lays out nodes, given in order of start; omits an arrow if a longer path joins its nodes."""
    edges = _reduced(upstream)
    layer_of = _layers(edges)
    chains: list[list[_Place]] = [
        [up, *((up, node, at) for at in range(layer_of[up] + 1, layer_of[node])), node]
        for node, ups in edges.items()
        for up in ups
    ]
    layers: list[list[_Place]] = [[] for _ in range(max(layer_of.values(), default=-1) + 1)]
    for node, at in layer_of.items():
        layers[at].append(node)
    for chain in chains:
        for at, place in enumerate(chain[1:-1], start=layer_of[str(chain[0])] + 1):
            layers[at].append(place)
    links = [link for chain in chains for link in pairwise(chain)]
    layers = _ordered(layers, links)
    width = max((_width(layer) for layer in layers), default=0) + 2 * _MARGIN
    middles = {place: at for layer in layers for place, at in _middles(layer, width)}
    tops = {p: _MARGIN + i * (BOX_HEIGHT + _LAYER_GAP) for i, one in enumerate(layers) for p in one}
    return Drawing(
        width,
        max(0, len(layers) * (BOX_HEIGHT + _LAYER_GAP) - _LAYER_GAP) + 2 * _MARGIN,
        {node: (middles[node] - BOX_WIDTH / 2, tops[node]) for node in layer_of},
        [_path([(middles[place], tops[place]) for place in chain]) for chain in chains],
    )


def _reduced(upstream: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    """Returns the edges from earlier nodes, except where a longer path joins the two nodes."""
    above: dict[str, set[str]] = {}
    edges: dict[str, list[str]] = {}
    for node, ups in upstream.items():
        known = [up for up in dict.fromkeys(ups) if up in above]
        edges[node] = [up for up in known if not any(up in above[other] for other in known)]
        above[node] = set(known).union(*(above[up] for up in known))
    return edges


def _layers(edges: Mapping[str, Sequence[str]]) -> dict[str, int]:
    """Returns each node's layer: below its upstream nodes or, without any, as low as possible."""
    layer_of: dict[str, int] = {}
    for node, ups in edges.items():
        layer_of[node] = 1 + max((layer_of[up] for up in ups), default=-1)
    for node, ups in edges.items():
        below = [layer_of[other] for other, its in edges.items() if node in its]
        if not ups and below:
            layer_of[node] = min(below) - 1
    return layer_of


def _ordered(
    layers: Sequence[Sequence[_Place]], links: Sequence[tuple[_Place, _Place]]
) -> list[list[_Place]]:
    ordered: list[list[_Place]] = []
    order: dict[_Place, int] = {}
    for layer in layers:
        centres = {}
        for i, place in enumerate(layer):
            above = [order[up] for up, below in links if below == place]
            centres[place] = sum(above) / len(above) if above else i
        ordered.append(sorted(layer, key=centres.__getitem__))
        order.update({place: i for i, place in enumerate(ordered[-1])})
    return ordered


def _breadth(place: _Place) -> float:
    return BOX_WIDTH if isinstance(place, str) else 0


def _width(layer: Sequence[_Place]) -> float:
    return sum(map(_breadth, layer)) + _GAP * (len(layer) - 1)


def _middles(layer: Sequence[_Place], width: float) -> list[tuple[_Place, float]]:
    at, found = (width - _width(layer)) / 2, []
    for place in layer:
        found.append((place, at + _breadth(place) / 2))
        at += _breadth(place) + _GAP
    return found


def _path(places: Sequence[tuple[float, float]]) -> str:
    parts = [f"M{places[0][0]:g} {places[0][1] + BOX_HEIGHT:g}"]
    for (x, y), (to_x, to_y) in pairwise(places):
        low, half = y + BOX_HEIGHT, _LAYER_GAP / 2
        parts.append(f"V{low:g}C{x:g} {low + half:g} {to_x:g} {to_y - half:g} {to_x:g} {to_y:g}")
    return "".join(parts)
