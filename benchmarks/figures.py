"""Writes the tables in README and docs from the outcomes of the benchmarks.

    python benchmarks/figures.py bench/*.json     keeps outcomes of `penstock bench`, writes tables
    python benchmarks/figures.py                  writes the tables from the kept outcomes
    python benchmarks/scale.py --keep             runs `scale.py`, keeps its outcome, writes tables

Keep only outcomes that were measured on a quiet machine. They are kept in `docs/figures`. The table
NAME of a document is between `<!-- figures: NAME -->` and `<!-- end -->`. No figure in these tables
is written by hand.
"""

import argparse
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penstock.benchmarks import images, ingest, ladder, peers, tables, tabular
from penstock.benchmarks.harness import figure, table, times
from penstock.benchmarks.remote import AGAIN, OWN
from penstock.benchmarks.scale import CONTENDERS, REPORT, Run

ROOT = Path(__file__).resolve().parents[1]
DOCUMENTS = ("README.md", "docs/results.md", "docs/real_tables.md")
SUM, SAME = "sum", "sum of the stages that stock has too"
# Names of nodes, and the names of their stages in the tables.
_STAGE = {
    "ShardedExampleGen": "ExampleGen",
    "CsvExampleGen": "ExampleGen",
    "BatchStatisticsGen": "StatisticsGen",
    "BatchTransform": "Transform",
}
# Stages that TFX's example does not have.
_OURS_ALONE = ("CuratedSchema", "ValidationGate", "Baseline", "ServingCheck", REPORT)
# A table leaves out a stage that takes fewer CPU seconds than this in every column.
_TOO_LITTLE = 0.1
_BLOCK = re.compile(r"(<!-- figures: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)


@dataclass(frozen=True)
class Line:
    """A line of the table of speed: a comparison in a benchmark, and its contenders.

    Attributes:
        what: The work and its unit.
        question: Name of the benchmark in `penstock bench`.
        title: Beginning of the comparison's title.
        figure: `cpu_us` (less is better) or `per_second`.
        naive: Peers of the column `naive`; the table shows the best of them.
        tuned: Peers of the column `tuned or stock peer`; the table shows the best of them.
        rows: Penstock's contender without packing.
        packed: Penstock's contender with packing.
    """

    what: str
    question: str
    title: str
    figure: str
    naive: Sequence[str]
    tuned: Sequence[str]
    rows: str | None
    packed: str | None = None


LINES = (
    Line("a table of 40 columns read, CPU us per row", "ladder", "A table", "cpu_us",
         ["naive"], [ladder.TUNED], ladder.ROWS, ladder.PACKED),
    Line("such a table read in the formats of peers, CPU us per row",
         "formats", "Peers: a table", "cpu_us",
         [peers.WEBDATASET, peers.GRAIN], [peers.GRAIN_BLOCKS, peers.SAVED, peers.PARQUET],
         peers.ROWS, peers.PACKED),
    Line("a model trained on 32 columns of numbers, rows/s", "tabular", "Train", "per_second",
         [tabular.CSV], [tabular.PANDAS, tabular.STOCK], tabular.ROWS, tabular.PACKED),
    Line("JPEGs of up to 375 x 500 read as 299 x 299, CPU us per image", "ladder", "JPEG", "cpu_us",
         ["naive"], [ladder.TUNED], None, ladder.PACKED),
    Line("a model trained on images, images/s", "images", "Training", "per_second",
         [images.GENERATOR], [], images.ROWS, images.PACKED),
    Line("CSV of 40 columns to GZIP TFRecords, CPU us per row", "ingest", "CSV", "cpu_us",
         [ingest.LOOP_GZIP], [ingest.STOCK], ingest.OURS_GZIP),
)  # fmt: skip


def keep(outcome: Path) -> None:
    """Keeps an outcome in `docs/figures`, rounded to four significant digits."""
    kept_one = _short(json.loads(outcome.read_text()))
    (ROOT / "docs/figures" / outcome.name).write_text(json.dumps(kept_one, indent=1) + "\n")


def keep_runs(runs: Mapping[str, Mapping[str, Run]]) -> None:
    """Keeps runs of the whole pipeline; they replace runs of the same contender and size."""
    path = ROOT / "docs/figures/scale.json"
    found = json.loads(path.read_text()) if path.exists() else {}
    for name, sizes in runs.items():
        found.setdefault(name, {}).update(_short(sizes))
    path.write_text(json.dumps(found, indent=1) + "\n")


def _short(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.4g}")
    if isinstance(value, list | tuple):
        return [_short(one) for one in value]
    if isinstance(value, dict):
        return {name: _short(one) for name, one in value.items()}
    return value


def kept(question: str) -> dict[str, Any]:
    """Returns the kept outcome of a benchmark."""
    found: dict[str, Any] = json.loads((ROOT / "docs/figures" / f"{question}.json").read_text())
    return found


def _peers(lines: Sequence[Line]) -> list[str]:
    """Returns the table that compares peers and Penstock at the same work."""
    headers = ("measured", "naive", "tuned or stock peer", "Penstock, rows", "Penstock, packed")
    return table(headers, [*map(_row, lines), _whole_pipeline()])


def _whole_pipeline() -> list[str]:
    """Returns the table's row of CPU time per trip, at the largest size run by TFX's example."""
    runs = kept("scale")
    rows = max(runs["stock"], key=int)
    stock, ours = (_sum(runs[name][rows]) / int(rows) * 1e6 for name in CONTENDERS)
    return [
        f"the taxi pipeline of {int(rows):,} trips, CPU us per row (`scale.py`)",
        "", f"{figure(stock)}, TFX's example", f"{figure(ours)} ({times(stock / ours)} x)", "",
    ]  # fmt: skip


def _row(line: Line) -> list[str]:
    (comparison,) = [
        one for one in kept(line.question)["comparisons"] if one["title"].startswith(line.title)
    ]
    figures = {one["name"]: one[line.figure] for one in comparison["contenders"]}
    is_cost = line.figure == "cpu_us"
    best = min if is_cost else max

    def theirs(names: Sequence[str]) -> str:
        if not names:
            return ""
        name = best(names, key=lambda one: figures[one])
        # The column's title already says "naive".
        return figure(figures[name]) + f", {name.removesuffix(', GZIP')}" * (name != "naive")

    def ours(name: str | None) -> str:
        if name is None:
            return ""
        peer = best(figures[one] for one in (*line.naive, *line.tuned))
        ratio = peer / figures[name] if is_cost else figures[name] / peer
        return f"{figure(figures[name])} ({times(ratio)} x)"

    what = f"{line.what} (`{line.question}`)"
    return [what, theirs(line.naive), theirs(line.tuned), ours(line.rows), ours(line.packed)]


def _sum(run: Run, *, shared: bool = False) -> float:
    """Returns the CPU seconds of all stages, or only of the stages that TFX's example also has."""
    return sum(s for stage, (s, _) in run.items() if not (shared and stage in _OURS_ALONE))


def stages(runs: Mapping[str, Mapping[str, Run]]) -> list[str]:
    """Returns the table of CPU time by stage: seconds at each size, and us per added row."""
    seconds: dict[str, dict[tuple[str, int], float]] = {}
    for name, sizes in runs.items():
        for size, run in sizes.items():
            took = {stage: s for stage, (s, _) in run.items()}
            for stage, s in (took | {SUM: _sum(run), SAME: _sum(run, shared=True)}).items():
                seconds.setdefault(_STAGE.get(stage, stage), {})[name, int(size)] = s
    columns = [(n, int(s)) for n, sizes in runs.items() for s in sizes]
    columns.sort(key=lambda one: (one[1], CONTENDERS.index(one[0])))
    slopes = [name for name in CONTENDERS if len(runs.get(name, {})) > 1]
    headers = ["stage", *(f"{name}, {size:,}" for name, size in columns)]
    headers += [f"us per added row, {name}" for name in slopes]
    ordered = dict.fromkeys(
        _STAGE.get(stage, stage) for run in runs["penstock"].values() for stage in run
    )
    lines = []
    for stage in (*ordered, SUM, SAME):
        took_here = seconds[stage]
        if max(took_here.values()) < _TOO_LITTLE:
            continue
        cells = [f"{took_here[one]:.1f}" if one in took_here else "" for one in columns]
        lines.append([stage, *cells, *(_slope(took_here, name) for name in slopes)])
    return table(headers, lines)


def _slope(seconds: Mapping[tuple[str, int], float], name: str) -> str:
    """Returns the CPU time per added row, in us, between the smallest and the largest size."""
    sizes = sorted(size for one, size in seconds if one == name)
    if len(sizes) < 2:
        return ""
    more = seconds[name, sizes[-1]] - seconds[name, sizes[0]]
    return f"{max(0.0, more / (sizes[-1] - sizes[0]) * 1e6):.1f}"


def memory(runs: Mapping[str, Mapping[str, Run]]) -> list[str]:
    """Returns the table of peak memory in each stage of Penstock's taxi pipeline, in MiB."""
    ours = runs.get("penstock", {})
    sizes = sorted(ours, key=int)
    lines = []
    for stage in dict.fromkeys(stage for size in sizes for stage in ours[size]):
        peaks = [ours[size].get(stage, (0.0, None))[1] for size in sizes]
        if any(peaks):
            cells = ["" if mib is None else f"{mib:,.0f}" for mib in peaks]
            lines.append([_STAGE.get(stage, stage), *cells])
    return table(["stage", *(f"{int(size):,}" for size in sizes)], lines)


def verdicts() -> list[str]:
    """Returns the table of claims and their measured ratios."""
    lines = [
        [
            question,
            one["claim"]["text"],
            f"{times(one['measured'])} x: {one['how']}",
            one["outcome"],
        ]
        for question in dict.fromkeys(line.question for line in LINES)
        for one in kept(question)["verdicts"]
    ]
    return table(("`bench`", "claimed", "measured", "verdict"), lines)


def remote() -> list[str]:
    """Returns the table of rows per second: in a first pass and, for Penstock, in the next pass."""
    places = kept("remote")["comparisons"]
    names = [one["name"] for one in places[0]["contenders"]]
    cells = {
        (place["title"], one["name"]): figure(one["per_second"])
        + (f", then {figure(one['extra'][AGAIN])}" if one["name"] in OWN else "")
        for place in places
        for one in place["contenders"]
    }
    titles = [place["title"] for place in places]
    return table(["input", *titles], [[name, *(cells[t, name] for t in titles)] for name in names])


def machine() -> list[str]:
    """Returns the list of machines on which the outcomes were measured."""
    lines = []
    for question in dict.fromkeys(line.question for line in LINES):
        has = kept(question)["machine"]
        versions = f"Python {has['Python']}, TensorFlow {has['TensorFlow']}, TFX {has['TFX']}"
        lines.append(f"{has['CPU']}, {has['cores']} cores, {has['memory']}; {versions}")
    return list(dict.fromkeys(lines))


def commits() -> list[str]:
    """Returns the table of benchmarks and the commits at which they were measured."""
    names = [*dict.fromkeys(line.question for line in LINES)]
    lines = [[f"`{name}`", kept(name)["machine"]["commit"]] for name in names]
    return table(("`bench`", "measured at commit"), lines)


TABLES: dict[str, Callable[[], list[str]]] = {
    "speed": lambda: _peers([line for line in LINES if line.question == "ladder"]),
    "contenders": lambda: _peers(LINES), "verdicts": verdicts, "machine": machine,
    "commits": commits, "remote": remote, "memory": lambda: memory(kept("scale")),
    "stages": lambda: stages(kept("scale")), "tables": lambda: tables.page(kept("tables")),
}  # fmt: skip


def rendered(document: str) -> str:
    """Returns a document with its tables replaced by those from `docs/figures`."""

    def block(found: re.Match[str]) -> str:
        return "\n".join([found[1], *TABLES[found[2]](), "", found[3]])

    return _BLOCK.sub(block, document)


def write_tables() -> None:
    """Writes the tables of the documents from the kept outcomes."""
    for name in DOCUMENTS:
        path = ROOT / name
        path.write_text(rendered(path.read_text()))


def main() -> None:
    """Keeps the given outcomes, and writes the tables."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("outcomes", type=Path, nargs="*")
    for outcome in parser.parse_args().outcomes:
        keep(outcome)
    write_tables()


if __name__ == "__main__":
    main()
