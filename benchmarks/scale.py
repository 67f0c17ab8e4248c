"""CPU and memory by stage of whole pipelines, TFX's and Penstock's, as the data grows.

Of the taxi pipeline, TFX's own example and Penstock's, with the trips that the tfx wheel ships,
15,002 of them, so many times over; both train 1,000 steps of 40 rows without an early stop. Of a
made table of 40 columns, the nodes from CSV to transformed Examples, TFX's and Penstock's. Beside
the statistics, what DuckDB's SUMMARIZE and Polars' describe take for a Parquet file of the same
rows: a bound, as they compute less and read columns.

    python benchmarks/scale.py --keep                                  some 20 minutes
    python benchmarks/scale.py --times 667 --only penstock --keep      10M trips by Penstock alone
    python benchmarks/scale.py --times 1 --table-rows                  the smallest, printed

With `--keep` the runs replace those of the same size in `docs/figures`, and the tables of the pages
are written.
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

from penstock.benchmarks import made_table, taxi
from penstock.benchmarks.harness import cpu_seconds_now, own_peak_mib, run_script
from penstock.pipelines.cli.main import spare_imports

CONTENDERS = ("stock", "penstock")
SUMMARIES = ("DuckDB", "Polars")
TAXI, TABLE = "taxi", "table"
IMPORTS, REPORT, REST, SUM, SAME = (
    "imports", "report", "between the stages", "sum", "sum of what stock has too"
)  # fmt: skip
# Stages that TFX's example does not have.
_OURS_ALONE = ("CuratedSchema", "ValidationGate", "Baseline", "ServingCheck", REPORT)

# CPU seconds of each stage and the peak of resident memory in it, MiB.
Run = Mapping[str, tuple[float, float | None]]


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


def write_table(folder: Path, rows: int) -> Path:
    """Write the table of 40 columns as CSV in a folder of its own."""
    import pyarrow.csv as pc

    data = folder / "table" / f"{rows}"
    data.mkdir(parents=True)
    with (data / "table.csv").open("wb") as out:
        # Arrow would quote the names, and CsvExampleGen takes the quotes as a part of them.
        out.write(f"{','.join(made_table.COLUMNS)}\n".encode())
        for batch in made_table.batches(rows):
            pc.write_csv(batch, out, pc.WriteOptions(include_header=False))
    return data


class _Stages:
    """CPU seconds and peak memory of this process by stage; memory on Linux only."""

    def __init__(self) -> None:
        self.found: dict[str, tuple[float, float | None]] = {}

    def add(self, name: str, work: Callable[[], Any]) -> Any:
        """Run `work` as a part of a stage."""
        before = cpu_seconds_now()
        can_reset = _reset_peak()
        try:
            return work()
        finally:
            seconds, peak = self.found.get(name, (0.0, 0.0))
            now = own_peak_mib() if can_reset else None
            peak = None if now is None or peak is None else max(peak, now)
            self.found[name] = seconds + cpu_seconds_now() - before, peak


def _reset_peak() -> bool:
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return False
    return True


def contend(what: str, name: str, data: Path, root: Path) -> Run:
    """The stages of a run, from the start of this process on.

    Penstock's is that of `penstock run`, whose imports are a choice of its own.
    """
    stages = _Stages()
    run = stages.add(IMPORTS, lambda: _loaded(what, name))
    from tfx.orchestration.portable.launcher import Launcher

    from penstock.pipelines.reporting import write

    launch, report = Launcher.launch, write.report_run
    Launcher.launch = lambda one: stages.add(one._pipeline_node.node_info.id, lambda: launch(one))
    write.report_run = lambda *given, **named: stages.add(REPORT, lambda: report(*given, **named))
    run(root, data)
    spent = sum(seconds for seconds, _ in stages.found.values())
    return stages.found | {REST: (cpu_seconds_now() - spent, None)}


def _loaded(what: str, name: str) -> Callable[[Path, Path], None]:
    """Imports a contender's pipeline; returns the function that runs it."""
    if name == "penstock":
        spare_imports()
    import penstock

    if what == TABLE and name == "stock":
        from tfx.v1 import components  # noqa: F401

        return _run_stock_table
    if what == TABLE:
        from penstock.nodes import BatchStatisticsGen, BatchTransform, ShardedExampleGen  # noqa: F401

        return _run_our_table
    if name == "stock":
        from tfx.examples.chicago_taxi_pipeline import taxi_pipeline_native_keras  # noqa: F401

        return taxi.run_stock
    from penstock.pipelines.taxi import pipeline  # noqa: F401

    def run(root: Path, data: Path) -> None:
        train = {"early_stop": None, "max_steps": 1000, "steps_per_epoch": 1000}
        options = {"root": str(root), "data": str(data), "train": train}
        penstock.run("taxi", options | {"input": {"batch_size": 40}})

    return run


def preprocessing_fn(inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Scales the numbers of the table, and gives ids to its texts."""
    import tensorflow as tf
    import tensorflow_transform as tft

    numbers = (*made_table.FLOATS, *made_table.INTS)
    scaled = {n: tft.scale_to_z_score(tf.cast(inputs[n], tf.float32)) for n in numbers}
    texts = made_table.STRINGS
    return scaled | {
        n: tft.compute_and_apply_vocabulary(inputs[n], vocab_filename=n) for n in texts
    }


def _run_stock_table(root: Path, data: Path) -> None:
    from tfx.v1 import components

    _run_nodes(root, components.CsvExampleGen(str(data)), components.StatisticsGen,
               components.Transform)  # fmt: skip


def _run_our_table(root: Path, data: Path) -> None:
    from penstock import nodes

    _run_nodes(root, nodes.ShardedExampleGen(str(data)), nodes.BatchStatisticsGen,
               nodes.BatchTransform)  # fmt: skip


def _run_nodes(root: Path, examples: Any, statistics: Any, transform: Any) -> None:
    """Runs the nodes from CSV to transformed Examples; Transform without its own statistics."""
    from tfx.components import SchemaGen
    from tfx.orchestration.local.local_dag_runner import LocalDagRunner
    from tfx.orchestration.metadata import sqlite_metadata_connection_config
    from tfx.orchestration.pipeline import Pipeline

    from penstock.nodes import local_beam_args

    root.mkdir(parents=True)
    rows = examples.outputs["examples"]
    found = statistics(rows)
    schema = SchemaGen(found.outputs["statistics"], infer_feature_shape=True)
    transformed = transform(
        examples=rows,
        schema=schema.outputs["schema"],
        preprocessing_fn="penstock.benchmarks.scale.preprocessing_fn",
        disable_statistics=True,
        disable_analyzer_cache=True,
    )
    LocalDagRunner().run(
        Pipeline(
            pipeline_name="table",
            pipeline_root=str(root),
            components=[examples, found, schema, transformed],
            metadata_connection_config=sqlite_metadata_connection_config(f"{root}/m.sqlite"),
            beam_pipeline_args=local_beam_args(),
        )
    )


def summarize(name: str, data: Path) -> Run:
    """CPU and memory of a summary of all columns; the file and imports are not counted."""
    import pyarrow.csv as pc
    import pyarrow.parquet as pq

    file = str(data / "rows.parquet")
    (source,) = data.glob("*.csv")
    if not os.path.exists(file):
        pq.write_table(pc.read_csv(source), file)
    stages = _Stages()
    if name == "DuckDB":
        import duckdb

        stages.add(SUM, lambda: duckdb.sql(f"SUMMARIZE SELECT * FROM '{file}'").fetchall())
    else:
        import polars

        stages.add(SUM, lambda: polars.read_parquet(file).describe())
    return stages.found


@dataclass(frozen=True)
class Stage:
    """What a stage took at each size, from the smallest; None where there is no such stage.

    Attributes:
        seconds: CPU seconds.
        mib: Peak of resident memory of the process in the stage.
        more_us: Microseconds of a row more, from the smallest size to the largest.
    """

    seconds: Sequence[float | None]
    mib: Sequence[float | None]
    more_us: float | None


_NOTHING = (None, None)


def stages(sizes: Mapping[Any, Run]) -> dict[str, Stage]:
    """A contender's stages and their sums, from its runs by number of rows."""
    counts = sorted(sizes, key=int)
    more = int(counts[-1]) - int(counts[0])
    names = dict.fromkeys(stage for run in sizes.values() for stage in run)
    with_sums = {n: {**sizes[n], **_sums(sizes[n])} for n in counts}
    found = {}
    for name in dict.fromkeys([*names, *(n for one in with_sums.values() for n in one)]):
        pairs = [with_sums[n].get(name, _NOTHING) for n in counts]
        seconds = [pair[0] for pair in pairs]
        first, last = seconds[0], seconds[-1]
        slope = None
        if more and first is not None and last is not None:
            slope = (last - first) / more * 1e6
        found[name] = Stage(seconds, [pair[1] for pair in pairs], slope)
    return found


def _sums(run: Run) -> dict[str, tuple[float, float | None]]:
    if SUM in run:
        return {}
    peak = max((mib for _, mib in run.values() if mib is not None), default=None)
    shared = sum(seconds for stage, (seconds, _) in run.items() if stage not in _OURS_ALONE)
    return {SUM: (sum(seconds for seconds, _ in run.values()), peak), SAME: (shared, None)}


def table(runs: Mapping[str, Mapping[Any, Run]]) -> list[str]:
    """Lines of CPU seconds and peak MiB by contender, stage and number of rows."""
    lines = []
    for name, sizes in runs.items():
        heads = "".join(f"{int(rows):>20,}" for rows in sorted(sizes, key=int))
        lines.append(f"{name:26}{heads}  us a row more")
        for stage, took in stages(sizes).items():
            pairs = zip(took.seconds, took.mib, strict=True)
            cells = "".join(f"{s or 0.0:10.1f} s{m or 0.0:6,.0f} M" for s, m in pairs)
            more = "" if took.more_us is None else f"{took.more_us:13.1f}"
            lines.append(f"{stage:26}{cells}  {more}")
        lines.append("")
    return lines


def main() -> None:
    """Run all contenders on all sizes, or, as a child, one."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--times", type=int, nargs="*", default=[1, 8, 67])
    parser.add_argument("--table-rows", type=int, nargs="*", default=[10_000, 100_000])
    parser.add_argument("--only", choices=CONTENDERS)
    parser.add_argument("--keep", action="store_true", help="write docs/figures and the tables")
    parser.add_argument("--contender", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--data", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--root", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.contender:
        what, name = args.contender
        # Read when TensorFlow is imported, which a contender does.
        os.environ.update(taxi.STOCK_ENVIRONMENT if (what, name) == (TAXI, "stock") else {})
        if name in SUMMARIES:
            found = summarize(name, args.data)
        else:
            found = contend(what, name, args.data, args.root)
        print(f"\n{json.dumps(found)}", flush=True)
        os._exit(0)
    runs: dict[str, dict[str, dict[str, Run]]] = {TAXI: {}, TABLE: {}}
    names = [args.only] if args.only else [*CONTENDERS, *SUMMARIES]
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as scratch:
        folder = Path(scratch)
        trips = ((TAXI, *prepare(folder, times)) for times in args.times)
        tables = ((TABLE, write_table(folder, rows), rows) for rows in args.table_rows)
        for what, data, rows in (one for several in (trips, tables) for one in several):
            for name in names:
                print(f"{what}, {rows:,} rows: {name}", file=sys.stderr, flush=True)
                root = folder / f"{what}-{name}-{rows}"
                options = ["--contender", what, name, "--data", str(data), "--root", str(root)]
                out = run_script(__file__, options, name)
                runs[what].setdefault(name, {})[f"{rows}"] = json.loads(out.splitlines()[-1])
    print("\n".join(line for what in runs if runs[what] for line in table(runs[what])))
    if args.keep:
        from penstock.benchmarks import figures

        figures.keep_runs("scale", runs)
        figures.write_tables()


if __name__ == "__main__":
    main()
