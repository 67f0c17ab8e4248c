"""Draws the pictures of docs/architecture.md from the code: `python docs/hooks/draw.py`.

The picture of the data's way is the DAG of `penstock run taxi`, each arrow an artifact type. The
picture of the rooms is their imports, without those that follow from others.
"""

import ast
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/architecture.md"
_BLOCK = "<!-- drawn: {} -->\n```mermaid\n{}```\n<!-- end -->"


def main() -> None:
    """Writes both pictures into the page."""
    text = PAGE.read_text(encoding="utf-8")
    for name, picture in (("dag", dag()), ("rooms", rooms())):
        found = re.compile(f"<!-- drawn: {name} -->.*?<!-- end -->", re.DOTALL)
        text = found.sub(lambda _: _BLOCK.format(name, picture), text)  # noqa: B023
    PAGE.write_text(text, encoding="utf-8")


def drawn(name: str) -> str:
    """Returns the picture of that name as the page has it."""
    text = PAGE.read_text(encoding="utf-8")
    return text.partition(f"<!-- drawn: {name} -->\n```mermaid\n")[2].partition("```")[0]


def dag() -> str:
    """Returns the DAG of the taxi pipeline as a Mermaid flowchart."""
    from penstock.pipelines.taxi.config import TaxiConfig
    from penstock.pipelines.taxi.pipeline import create_pipeline

    lines = []
    for node in create_pipeline(TaxiConfig()).components:
        # A node without artifacts of another, such as a gate, only has to end before it.
        arrows: dict[str, set[str]] = {one.id: set() for one in node.upstream_nodes}
        for channel in node.inputs.values():
            if producer := getattr(channel, "producer_component_id", None):  # a resolver's has none
                arrows[producer].add(channel.type.TYPE_NAME)
        lines += [
            f"    {_name(producer)} {_arrow(arrows[producer])} {_name(node.id)}"
            for producer in sorted(arrows)
        ]
    return "flowchart TD\n" + "\n".join(lines) + "\n"


def _arrow(types: set[str]) -> str:
    return f"-- {', '.join(sorted(types))} -->" if types else "-.->"


def _name(node_id: str) -> str:
    return node_id.replace("latest_blessed_model_resolver", "baseline").replace(".", "_")


def rooms() -> str:
    """Returns the rooms and their imports as a Mermaid flowchart, upper rooms at the bottom."""
    names = re.findall(r"^\| `([a-z/_]+)` \|", (ROOT / "CONTRIBUTING.md").read_text(), re.MULTILINE)
    names.remove("benchmarks")
    imports = {room: _imported_rooms(room, names) for room in names}
    reachable: dict[str, set[str]] = {}
    for room in imports:  # top to bottom: what a room imports is known before it
        reachable[room] = imports[room].union(*(reachable[other] for other in imports[room]))
    lines = []
    for room, direct in imports.items():
        implied = set().union(*(reachable[other] for other in direct)) if direct else set()
        lines += [f"    {_label(room)} --> {_label(other)}" for other in sorted(direct - implied)]
    return "flowchart LR\n" + "\n".join(lines) + "\n"


def _label(room: str) -> str:
    return room if "/" not in room else f'{room.replace("/", "_")}["{room.partition("/")[2]}"]'


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
