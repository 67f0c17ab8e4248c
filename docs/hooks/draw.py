"""Draws the pictures of README and docs/architecture.md: `python docs/hooks/draw.py`.

`pipeline.svg` shows the path of the data as one row of boxes. `dag.svg` is the DAG of
`penstock run taxi`, and `rooms.svg` shows the imports between rooms, the folders in the table of
CONTRIBUTING.md. DAG and imports are read from the code. An arrow between two boxes is left out if a
path of other arrows connects them. An SVG file looks the same offline, on a code host and on a
package index.
"""

import ast
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from xml.sax.saxutils import escape

from penstock.pipelines.reporting.graph import BOX_HEIGHT, BOX_WIDTH, draw

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs/images"
_WAY = (
    ("files, databases,", "object stores"),
    ("ShardedExampleGen",),
    ("statistics, schema,", "gates"),
    ("Transform",),
    ("Trainer",),
    ("Evaluator,", "ServingCheck"),
    ("Pusher",),
)
_STYLE = (
    "text{font:13px sans-serif;fill:#1c2733;text-anchor:middle}"
    "rect{fill:#eef3f8;stroke:#5b7a99;rx:6px}"
    "path{fill:none;stroke:#5b7a99;marker-end:url(#head)}"
)
_HEAD = (
    '<defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7"'
    ' orient="auto"><path d="M0 0L8 4L0 8z" style="fill:#5b7a99;stroke:none;marker-end:none"/>'
    "</marker></defs>"
)


def pictures() -> dict[str, str]:
    """Returns the SVG of each picture by name."""
    return {"pipeline": _row(_WAY), "dag": _layered(dag()), "rooms": _layered(rooms())}


def main() -> None:
    """Writes the pictures into docs/images."""
    for name, svg in pictures().items():
        (FOLDER / f"{name}.svg").write_text(svg, encoding="utf-8")


def _row(boxes: Sequence[Sequence[str]]) -> str:
    width, gap, top = 144, 24, 6
    lefts = [4 + i * (width + gap) for i in range(len(boxes))]
    middle = top + BOX_HEIGHT / 2
    body = [_box(left, top, width, lines) for left, lines in zip(lefts, boxes, strict=True)]
    body += [f'<path d="M{left - gap:g} {middle:g}H{left:g}"/>' for left in lefts[1:]]
    return _svg(lefts[-1] + width + 4, BOX_HEIGHT + 2 * top, body)


def _layered(upstream: Mapping[str, Sequence[str]]) -> str:
    drawing = draw(upstream)
    body = [f'<path d="{path}"/>' for path in drawing.arrows]
    body += [_box(x, y, BOX_WIDTH, [name]) for name, (x, y) in drawing.boxes.items()]
    return _svg(drawing.width, drawing.height, body)


def _box(left: float, top: float, width: float, lines: Sequence[str]) -> str:
    middle, first = left + width / 2, top + BOX_HEIGHT / 2 + 5 - 8 * (len(lines) - 1)
    texts = (
        f'<text x="{middle:g}" y="{first + 16 * i:g}">{escape(line)}</text>'
        for i, line in enumerate(lines)
    )
    box = f'<rect x="{left:g}" y="{top:g}" width="{width:g}" height="{BOX_HEIGHT:g}"/>'
    return box + "".join(texts)


def _svg(width: float, height: float, body: Sequence[str]) -> str:
    size = f'width="{width:g}" height="{height:g}" viewBox="0 0 {width:g} {height:g}"'
    background = '<rect width="100%" height="100%" style="fill:#fff;stroke:none"/>'
    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" {size}>', f"<style>{_STYLE}</style>", _HEAD]
    return "\n".join([*lines, background, *body, "</svg>\n"])


def dag() -> dict[str, list[str]]:
    """Returns the upstream nodes of each node of the taxi pipeline."""
    from penstock.pipelines.taxi.config import Config
    from penstock.pipelines.taxi.pipeline import create_pipeline

    nodes = create_pipeline(Config()).components
    return {_name(node.id): sorted(_name(up.id) for up in node.upstream_nodes) for node in nodes}


def _name(node_id: str) -> str:
    return node_id.replace("latest_blessed_model_resolver", "baseline")


def rooms() -> dict[str, list[str]]:
    """Returns the rooms that each room imports; leaves out `benchmarks` and unconnected rooms."""
    names = re.findall(r"^\| `([a-z/_]+)` \|", (ROOT / "CONTRIBUTING.md").read_text(), re.MULTILINE)
    names.remove("benchmarks")
    imports = {room: _imported_rooms(room, names) for room in names}
    alone = {room for room in names if not imports[room]} - set().union(*imports.values())
    return {_label(room): sorted(map(_label, imports[room])) for room in names if room not in alone}


def _label(room: str) -> str:
    return room.rpartition("/")[2]


def _imported_rooms(room: str, names: Iterable[str]) -> set[str]:
    longest = sorted(names, key=len, reverse=True)
    found = set()
    folder = ROOT / room
    files = folder.glob("*.py") if room in ("components", "pipelines") else folder.rglob("*.py")
    for path in files:
        for module in _imports(path):
            place = module.removeprefix("penstock.").replace(".", "/") + "/"
            found |= {next((name for name in longest if place.startswith(f"{name}/")), room)}
    return found - {room}


def _imports(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("penstock."):
            yield node.module or ""


if __name__ == "__main__":
    main()
