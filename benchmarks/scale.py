"""CPU by stage of the taxi pipeline, TFX's own example and Penstock's, as the data grows.

The trips that the tfx wheel ships, 15,002 of them, once, 8 and 67 times over. Both train 160
steps of 256 rows without an early stop, in stock's case as 1,000 of 40. The row of a stage is
CPU seconds at each size; the last column is what a row more costs between the first and the last.

    python benchmarks/scale.py                               a quarter of an hour
    python benchmarks/scale.py --times 1 --only penstock     one run
"""

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penstock.benchmarks import taxi
from penstock.benchmarks.harness import cpu_seconds_now, run_script
from penstock.pipelines.cli.main import spare_imports

CONTENDERS = ("stock", "penstock")
IMPORTS, REST, SUM = "imports", "between the stages", "sum"


def prepare(folder: Path, times: int) -> tuple[Path, int]:
    """The example's trips so many times over in one CSV, and how many there are."""
    path = folder / "data" / f"{times}" / "trips.csv"
    path.parent.mkdir(parents=True)
    return path.parent, write_trips(path, times)


def write_trips(path: Path, times: int) -> int:
    """Write the example's trips so many times over; how many they are."""
    from penstock.pipelines.taxi.config import example_data

    (source,) = Path(example_data()).glob("*.csv")
    header, *trips = source.read_text().splitlines(keepends=True)
    with path.open("w") as out:
        out.write(header)
        for _ in range(times):
            out.writelines(trips)
    return times * len(trips)


def contend(name: str, data: Path, root: Path) -> dict[str, float]:
    """CPU seconds of each stage of a run, from the start of this process on.

    Penstock's is that of `penstock run`, whose imports are a choice of its own.
    """
    if name == "penstock":
        spare_imports()
    from tfx.orchestration.portable.launcher import Launcher

    import penstock

    if name == "stock":
        from tfx.examples.chicago_taxi_pipeline import taxi_pipeline_native_keras  # noqa: F401
    else:
        from penstock.pipelines.taxi import pipeline  # noqa: F401
    stages = {IMPORTS: cpu_seconds_now()}
    launch: Callable[[Any], Any] = Launcher.launch

    def counted(launcher: Any) -> Any:
        began = cpu_seconds_now()
        try:
            return launch(launcher)
        finally:
            stage = launcher._pipeline_node.node_info.id
            stages[stage] = stages.get(stage, 0.0) + cpu_seconds_now() - began

    Launcher.launch = counted
    if name == "stock":
        taxi.run_stock(root, data)
    else:
        options = {"root": str(root), "data": str(data), "train": {"early_stop": None}}
        penstock.run("taxi", options)
    stages[REST] = cpu_seconds_now() - sum(stages.values())
    return stages


@dataclass(frozen=True)
class Stage:
    """What a stage took at each size, from the smallest; None where there is no such stage.

    Attributes:
        seconds: CPU seconds.
        more_us: Microseconds of a row more, from the smallest size to the largest.
    """

    seconds: Sequence[float | None]
    more_us: float | None


def stages(sizes: Mapping[Any, Mapping[str, float]]) -> dict[str, Stage]:
    """A contender's stages and their sum, from its runs by number of rows."""
    counts = sorted(sizes, key=int)
    more = int(counts[-1]) - int(counts[0])
    found = {}
    for name in [*dict.fromkeys(stage for run in sizes.values() for stage in run), SUM]:
        seconds = [sum(sizes[n].values()) if name == SUM else sizes[n].get(name) for n in counts]
        first, last = seconds[0], seconds[-1]
        slope = None
        if more and first is not None and last is not None:
            slope = (last - first) / more * 1e6
        found[name] = Stage(seconds, slope)
    return found


def table(runs: dict[str, dict[int, dict[str, float]]]) -> list[str]:
    """Lines of CPU seconds by contender, stage and number of rows."""
    lines = []
    for name, sizes in runs.items():
        heads = "".join(f"{rows:>12,}" for rows in sorted(sizes))
        lines.append(f"{name:26}{heads}  us a row more")
        for stage, took in stages(sizes).items():
            cells = "".join(f"{seconds or 0.0:12.1f}" for seconds in took.seconds)
            more = "" if took.more_us is None else f"{took.more_us:14.1f}"
            lines.append(f"{stage:26}{cells}  {more}")
        lines.append("")
    return lines


def main() -> None:
    """Run all contenders on all sizes, or, as a child, one."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, nargs="+", default=[1, 8, 67])
    parser.add_argument("--only", choices=CONTENDERS)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--contender", help=argparse.SUPPRESS)
    parser.add_argument("--data", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--root", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.contender:
        # Read when TensorFlow is imported, which a contender does.
        os.environ.update(taxi.STOCK_ENVIRONMENT if args.contender == "stock" else {})
        stages = contend(args.contender, args.data, args.root)
        print(f"\n{json.dumps(stages)}", flush=True)
        os._exit(0)
    runs: dict[str, dict[int, dict[str, float]]] = {}
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as scratch:
        for times in args.times:
            data, rows = prepare(Path(scratch), times)
            for name in [args.only] if args.only else CONTENDERS:
                print(f"{rows:,} rows: {name}", file=sys.stderr, flush=True)
                root = Path(scratch) / f"{name}-{times}"
                options = ["--contender", name, "--data", str(data), "--root", str(root)]
                out = run_script(__file__, options, name)
                runs.setdefault(name, {})[rows] = json.loads(out.splitlines()[-1])
    print(json.dumps(runs, indent=1) if args.json else "\n".join(table(runs)))


if __name__ == "__main__":
    main()
