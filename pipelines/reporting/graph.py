"""A layered layout of a pipeline's graph: names and edges in, places out; integers only.

A node stands one layer below the lowest of the nodes that it waits for. An edge over several
layers bends around the nodes between by way of a slot in each of them.
"""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

_SWEEPS = 4

# Where an edge passes a layer: its source, its target, and the layer.
_Bend = tuple[str, str, int]
_Point = str | _Bend


@dataclass(frozen=True)
class Edge:
    """From one node to one that waits for it, as slots to pass through, ends included.

    Attributes:
        source: The node that is waited for.
        target: The node that waits.
        path: (layer, slot) of each point.
        is_implied: Whether another path leads from source to target as well.
    """

    source: str
    target: str
    path: Sequence[tuple[int, float]]
    is_implied: bool


@dataclass(frozen=True)
class Layout:
    """Places of nodes and edges.

    Attributes:
        places: (layer, slot) by node; slots count from 0 and may be fractions.
        edges: The edges.
        layers: Number of layers.
        slots: Width of the widest layer, in slots.
    """

    places: Mapping[str, tuple[int, float]]
    edges: Sequence[Edge]
    layers: int
    slots: float


def lay_out(upstream: Mapping[str, Sequence[str]]) -> Layout:
    """Place the nodes of a graph without cycles, given those that each waits for."""
    waits = {node: [u for u in ups if u in upstream] for node, ups in upstream.items()}
    layer = _layers(waits)
    chains: dict[tuple[str, str], list[_Point]] = {
        (up, node): [up, *((up, node, i) for i in range(layer[up] + 1, layer[node])), node]
        for node, ups in waits.items()
        for up in ups
        if not _is_implied(up, node, waits)
    }
    order = _order(layer, chains)
    slot = {name: i - (len(row) - 1) / 2 for row in order for i, name in enumerate(row)}
    left = min(slot.values(), default=0.0)
    edges = []
    for node, ups in waits.items():
        for up in ups:
            chain = chains.get((up, node), [up, node])
            path = [
                (layer[name] if isinstance(name, str) else name[2], slot[name] - left)
                for name in chain
            ]
            edges.append(Edge(up, node, path, (up, node) not in chains))
    return Layout(
        {name: (layer[name], slot[name] - left) for name in waits},
        edges,
        max(layer.values(), default=-1) + 1,
        max(slot.values(), default=0.0) - left + 1,
    )


def _layers(waits: Mapping[str, Sequence[str]]) -> dict[str, int]:
    layer: dict[str, int] = {}

    def place(node: str) -> int:
        if node not in layer:
            layer[node] = 1 + max((place(up) for up in waits[node]), default=-1)
        return layer[node]

    for node in waits:
        place(node)
    return layer


def _is_implied(up: str, node: str, waits: Mapping[str, Sequence[str]]) -> bool:
    """Whether `node` waits for `up` by way of another node as well."""
    return any(up in _ancestors(other, waits) for other in waits[node] if other != up)


def _ancestors(node: str, waits: Mapping[str, Sequence[str]]) -> set[str]:
    found: set[str] = set()
    left = list(waits[node])
    while left:
        name = left.pop()
        if name not in found:
            found.add(name)
            left += waits[name]
    return found


def _order(
    layer: Mapping[str, int], chains: Mapping[tuple[str, str], Sequence[_Point]]
) -> list[list[_Point]]:
    """The names and bends of each layer from left to right, few edges crossing.

    Each layer in turn is sorted by where its neighbours stand, downwards and upwards.
    """
    rows: list[list[_Point]] = [[] for _ in range(max(layer.values(), default=-1) + 1)]
    for name, at in layer.items():
        rows[at].append(name)
    above: dict[_Point, list[_Point]] = {}
    below: dict[_Point, list[_Point]] = {}
    for chain in chains.values():
        for bend in chain[1:-1]:
            rows[int(bend[2])].append(bend)
        for first, second in itertools.pairwise(chain):
            above.setdefault(second, []).append(first)
            below.setdefault(first, []).append(second)
    for sweep in range(_SWEEPS):
        neighbours, turn = (above, rows) if sweep % 2 == 0 else (below, rows[::-1])
        for row in turn:
            middle = {name: i - (len(r) - 1) / 2 for r in rows for i, name in enumerate(r)}
            row.sort(key=lambda name: _mean([middle[n] for n in neighbours.get(name, [name])]))
    return rows


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
