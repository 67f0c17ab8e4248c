"""The figures of README and docs, from the outcomes of `penstock bench` and of `scale.py`.

    python benchmarks/scale.py --keep             on a quiet machine; writes the tables too
    python benchmarks/figures.py bench/*.json     after a run on a quiet machine
    python benchmarks/figures.py                  the tables anew

An outcome is kept in `docs/figures`, without its curves; between `<!-- figures: NAME -->` and
`<!-- end -->` of a document stands the table of that name. Nobody writes a figure there by hand.
"""

import argparse
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from penstock.benchmarks import format_peers, image_training, ingest, ladder, scale, tabular
from penstock.benchmarks.outcome import times
from penstock.benchmarks.scale import CONTENDERS, Stage
from penstock.components.errors import DataError

ROOT = Path(__file__).resolve().parents[1]
DOCUMENTS = ("README.md", "docs/benchmarks.md")
KEPT = ("question", "title", "setting", "comparisons", "facts", "verdicts", "seconds", "machine")
# TFX's names for the stages, by Penstock's.
_STAGE = {
    "ShardedExampleGen": "ExampleGen",
    "CsvExampleGen": "ExampleGen",
    "BatchStatisticsGen": "StatisticsGen",
    "BatchTransform": "Transform",
}
_STATISTICS = ("StatisticsGen", "BatchStatisticsGen")
# Stages below so many seconds at every size are left out of a table.
_TOO_LITTLE = 0.1
_BLOCK = re.compile(r"(<!-- figures: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)


@dataclass(frozen=True)
class Line:
    """A line of README's table: contenders of one comparison of a question.

    Attributes:
        what: The work and its unit.
        question: Of `penstock bench`.
        title: How the comparison's title begins.
        figure: `cpu_us`, of which less is better, or `per_second`.
        naive: The peers that do a record at a time; the best of them is shown.
        tuned: The best-tuned peers; likewise.
        rows: Penstock's contender without packing.
        packed: And with it.
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
    Line("a table of 40 columns read, CPU us a row", "ladder", "A table", "cpu_us",
         ["naive"], [ladder.TUNED], ladder.ROWS, ladder.PACKED),
    Line("the same in files of peers, CPU us a row", "formats", "Peers: a table", "cpu_us",
         [format_peers.WEBDATASET, format_peers.GRAIN],
         [format_peers.GRAIN_BLOCKS, format_peers.SAVED, format_peers.PARQUET],
         format_peers.ROWS, format_peers.PACKED),
    Line("trained on its 32 numbers, rows/s", "tabular", "Train", "per_second",
         [tabular.CSV], [tabular.PANDAS, tabular.STOCK], tabular.ROWS, tabular.PACKED),
    Line("JPEG of 375 x 500 to 299 x 299 read, CPU us an image", "ladder", "JPEG", "cpu_us",
         ["naive"], [ladder.TUNED], None, ladder.PACKED),
    Line("trained on images, images/s", "images", "Training", "per_second",
         [image_training.GENERATOR], [], image_training.ROWS, image_training.PACKED),
    Line("CSV of 40 columns to GZIP TFRecords, CPU us a row", "ingest", "CSV", "cpu_us",
         [ingest.LOOP_GZIP], [ingest.STOCK], ingest.OURS_GZIP),
)  # fmt: skip


def keep(outcome: Path) -> None:
    """An outcome without its curves, to four digits, in `docs/figures`."""
    whole = json.loads(outcome.read_text())
    kept = {name: _short(whole[name]) for name in (KEPT if "question" in whole else whole)}
    (ROOT / "docs/figures" / outcome.name).write_text(json.dumps(kept, indent=1) + "\n")


def keep_runs(name: str, runs: dict[str, Any]) -> None:
    """Runs by what, contender and size: they replace kept ones of the same."""
    path = ROOT / "docs/figures" / f"{name}.json"
    found = json.loads(path.read_text()) if path.exists() else {}
    for what, contenders in runs.items():
        for contender, sizes in contenders.items():
            found.setdefault(what, {}).setdefault(contender, {}).update(_short(sizes))
    path.write_text(json.dumps(found, indent=1) + "\n")


def _short(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.4g}")
    if isinstance(value, list):
        return [_short(one) for one in value]
    if isinstance(value, dict):
        return {name: _short(one) for name, one in value.items()}
    return value


def kept(question: str) -> dict[str, Any]:
    """What `docs/figures` has of a question.

    Raises:
        DataError: It has nothing.
    """
    path = ROOT / "docs/figures" / f"{question}.json"
    if not path.exists():
        raise DataError(f"{path}: is not there; run penstock bench {question}, then this with it")
    found: dict[str, Any] = json.loads(path.read_text())
    return found


def speed() -> list[str]:
    """README's table: what peers and Penstock need for the same work."""
    headers = [
        "| | naive | tuned or stock peer | Penstock, rows | Penstock, packed |",
        "|---|---|---|---|---|",
    ]
    return [*headers, *map(_row, LINES), _whole_pipeline()]


def _whole_pipeline() -> str:
    """README's line of what a trip costs in the taxi pipeline at most rows."""
    runs = kept("scale")[scale.TAXI]
    rows = max(runs["stock"], key=int)
    stock, ours = (
        sum(seconds for seconds, _ in runs[name][rows].values()) / int(rows) * 1e6
        for name in CONTENDERS
    )
    return (
        f"| the taxi pipeline of {int(rows):,} trips, CPU us a row (`scale.py`) |  | "
        f"{_figure(stock)}, TFX's example | {_figure(ours)} ({times(stock / ours)} x) |  |"
    )


def _row(line: Line) -> str:
    (comparison,) = [
        one for one in kept(line.question)["comparisons"] if one["title"].startswith(line.title)
    ]
    figures = {one["name"]: one[line.figure] for one in comparison["contenders"]}
    is_cost = line.figure == "cpu_us"

    def best(names: Sequence[str]) -> str | None:
        return (
            sorted(names, key=lambda name: figures[name], reverse=not is_cost)[0] if names else None
        )

    naive, tuned = best(line.naive), best(line.tuned)
    peer = figures[best([*line.naive, *line.tuned])]

    def theirs(name: str | None) -> str:
        if name in (None, "naive"):  # of which the column says enough
            return _figure(figures[name]) if name else ""
        return f"{_figure(figures[name])}, {name.removesuffix(', GZIP')}"

    def ours(name: str | None) -> str:
        if name is None:
            return ""
        ratio = peer / figures[name] if is_cost else figures[name] / peer
        return f"{_figure(figures[name])} ({times(ratio)} x)"

    cells = (theirs(naive), theirs(tuned), ours(line.rows), ours(line.packed))
    return f"| {line.what} (`{line.question}`) | {' | '.join(cells)} |"


def _stages(what: str) -> dict[str, dict[str, Stage]]:
    """The stages of TFX's and of Penstock's pipelines, by TFX's names."""
    runs = kept("scale").get(what, {})
    return {
        name: {_STAGE.get(stage, stage): took for stage, took in scale.stages(runs[name]).items()}
        for name in CONTENDERS
        if name in runs
    }


def stages(what: str) -> list[str]:
    """CPU seconds by stage of a pipeline, of TFX's and of Penstock's."""
    found = _stages(what)
    runs = kept("scale").get(what, {})
    columns = [
        (name, sorted(runs[name], key=int).index(size), int(size))
        for size in sorted({size for name in found for size in runs[name]}, key=int)
        for name in found
        if size in runs[name]
    ]
    heads = [f"{name}, {size:,}" for name, _, size in columns]
    heads += [f"a row more, us, {name}" for name in found]
    lines = [f"| | {' | '.join(heads)} |", "|---|" + "--:|" * len(heads)]
    for stage in found.get("penstock", {}):
        of_name = {name: found[name].get(stage) for name in found}
        took = [of_name[name] for name, _, _ in columns]
        spent = [
            one.seconds[at] if one else None for one, (_, at, _) in zip(took, columns, strict=True)
        ]
        if max(seconds or 0 for seconds in spent) < _TOO_LITTLE:
            continue
        cells = ["" if seconds is None else f"{seconds:.1f}" for seconds in spent]
        more = [one.more_us if one else None for one in of_name.values()]
        cells += ["" if us is None else f"{max(us, 0):.1f}" for us in more]
        lines.append(f"| {stage} | {' | '.join(cells)} |")
    return lines


def memory() -> list[str]:
    """Peak of resident memory in the stages of Penstock's taxi pipeline, MiB."""
    sizes = sorted(kept("scale")[scale.TAXI]["penstock"], key=int)
    heads = [f"{int(size):,}" for size in sizes]
    lines = [f"| | {' | '.join(heads)} |", "|---|" + "--:|" * len(heads)]
    for stage, took in _stages(scale.TAXI)["penstock"].items():
        if any(took.mib):
            cells = ["" if mib is None else f"{mib:,.0f}" for mib in took.mib]
            lines.append(f"| {stage} | {' | '.join(cells)} |")
    return lines


def summaries() -> list[str]:
    """CPU seconds of the statistics, and of a summary of the same columns by others."""
    kept_runs = kept("scale")
    heads: list[str] = []
    cells: dict[str, list[str]] = {}
    for what in (scale.TAXI, scale.TABLE):
        runs = kept_runs.get(what, {})
        for size in sorted(runs.get("DuckDB", {}), key=int):
            heads.append(f"{what}, {int(size):,}")
            for name, sizes in runs.items():
                found = sizes.get(size, {})
                stage = next((s for s in (scale.SUM, *_STATISTICS) if s in found), None)
                seconds = f"{found[stage][0]:.2f}" if stage else ""
                cells.setdefault(name, []).append(seconds)
    lines = [f"| | {' | '.join(heads)} |", "|---|" + "--:|" * len(heads)]
    return [*lines, *(f"| {name} | {' | '.join(of_name)} |" for name, of_name in cells.items())]


def verdicts() -> list[str]:
    """Each claim and what was measured of it."""
    lines = ["| `bench` | claimed | measured | verdict |", "|---|---|---|---|"]
    for question in dict.fromkeys(line.question for line in LINES):
        for one in kept(question)["verdicts"]:
            measured = f"{times(one['measured'])} x, {one['how']}"
            lines.append(f"| {question} | {one['claim']['text']} | {measured} | {one['outcome']} |")
    return lines


def machine() -> list[str]:
    """Where all of it was measured."""
    lines = []
    for question in dict.fromkeys(line.question for line in LINES):
        has = kept(question)["machine"]
        versions = f"Python {has['Python']}, TensorFlow {has['TensorFlow']}, TFX {has['TFX']}"
        where = f"{has['CPU']}, {has['cores']} cores, {has['memory']}; {versions}"
        if where not in lines:
            lines.append(where)
    return lines


TABLES: dict[str, Callable[[], list[str]]] = {
    "speed": speed, "verdicts": verdicts, "machine": machine, "memory": memory,
    "stages": partial(stages, scale.TAXI), "table": partial(stages, scale.TABLE),
    "summaries": summaries,
}  # fmt: skip


def rendered(document: str) -> str:
    """A document with its tables as `docs/figures` has them."""

    def block(found: re.Match[str]) -> str:
        return "\n".join([found[1], *TABLES[found[2]](), "", found[3]])

    return _BLOCK.sub(block, document)


def _figure(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def main() -> None:
    """Keep what is given, and write the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("outcomes", type=Path, nargs="*")
    for outcome in parser.parse_args().outcomes:
        keep(outcome)
    write_tables()


def write_tables() -> None:
    """Write the tables of the documents from what is kept."""
    for name in DOCUMENTS:
        path = ROOT / name
        path.write_text(rendered(path.read_text()))


if __name__ == "__main__":
    main()
