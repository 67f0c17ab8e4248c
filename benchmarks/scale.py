"""Measures CPU and memory by stage of TFX's and Penstock's taxi pipelines, as the data grows.

TFX's pipeline is the example `taxi_pipeline_native_keras.py` in TFX's wheel. It runs with one Beam
worker in the same process, which is fastest for this data. Both pipelines read copies of the 15,002
trips in the wheel, and both train 1,000 steps of 40 rows without early stopping.

    python benchmarks/scale.py --keep                                  some 20 minutes
    python benchmarks/scale.py --times 667 --only penstock --keep      10M trips by Penstock alone

With `--keep`, the runs replace those of the same pipeline and size in `docs/figures`, and the
tables of the pages are rewritten.
"""

import argparse
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from penstock.benchmarks.harness import cpu_seconds_now, own_peak_mib, run_script
from penstock.pipelines.cli.main import spare_imports

CONTENDERS = ("stock", "penstock")
IMPORTS, REPORT, REST = "imports", "report", "between the stages"

# CPU seconds of each stage, and the peak of resident memory in it, in MiB.
Run = Mapping[str, tuple[float, float | None]]


def prepare(folder: Path, times: int) -> tuple[Path, int]:
    """Writes the trips of TFX's example `times` times; returns their folder and number."""
    from penstock.pipelines.taxi.config import example_data

    (source,) = Path(example_data()).glob("*.csv")
    header, *trips = source.read_text().splitlines(keepends=True)
    path = folder / "data" / f"{times}" / "trips.csv"
    path.parent.mkdir(parents=True)
    with path.open("w") as out:
        out.write(header)
        for _ in range(times):
            out.writelines(trips)
    return path.parent, times * len(trips)


class _Stages:
    """CPU seconds and peak memory of this process by stage; memory is measured on Linux only."""

    def __init__(self) -> None:
        self.found: dict[str, tuple[float, float | None]] = {}

    def add(self, name: str, work: Callable[[], Any]) -> Any:
        """Runs `work` and counts it as part of a stage."""
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


def contend(name: str, data: Path, root: Path) -> Run:
    """Returns the stages of a run, measured from the start of this process.

    Like the command `penstock run`, Penstock's run avoids imports of modules that it does not use.
    """
    stages = _Stages()
    run = stages.add(IMPORTS, _stock if name == "stock" else _penstock)
    from tfx.orchestration.portable.launcher import Launcher

    from penstock.pipelines.reporting import write

    launch, report = Launcher.launch, write.report_run
    Launcher.launch = lambda one: stages.add(one._pipeline_node.node_info.id, lambda: launch(one))
    write.report_run = lambda *given, **named: stages.add(REPORT, lambda: report(*given, **named))
    run(root, data)
    spent = sum(seconds for seconds, _ in stages.found.values())
    return stages.found | {REST: (cpu_seconds_now() - spent, None)}


def _penstock() -> Callable[[Path, Path], None]:
    """Imports Penstock's pipeline; returns the function that runs it."""
    spare_imports()
    import penstock
    from penstock.pipelines.taxi import pipeline  # noqa: F401

    def run(root: Path, data: Path) -> None:
        train = {"early_stop": None, "max_steps": 1000, "steps_per_epoch": 1000}
        options = {"root": str(root), "data": str(data), "train": train}
        penstock.run("taxi", options | {"input": {"batch_size": 40}})

    return run


def _stock() -> Callable[[Path, Path], None]:
    """Imports TFX's example; returns the function that runs it."""
    from tfx.examples.chicago_taxi_pipeline import taxi_pipeline_native_keras as stock
    from tfx.orchestration.local.local_dag_runner import LocalDagRunner

    def run(root: Path, data: Path) -> None:
        root.mkdir(parents=True)
        module_file = root / "taxi_utils_native_keras.py"
        shutil.copy(Path(stock.__file__).parent / module_file.name, module_file)
        LocalDagRunner().run(
            stock._create_pipeline(
                pipeline_name="stock",
                pipeline_root=str(root / "pipeline"),
                data_root=str(data),
                module_file=str(module_file),
                serving_model_dir=str(root / "serving_model"),
                metadata_path=str(root / "metadata.sqlite"),
                beam_pipeline_args=[
                    "--runner=apache_beam.runners.portability.fn_api_runner.FnApiRunner",
                    "--direct_running_mode=in_memory",
                ],
            )
        )

    return run


def main() -> None:
    """Runs all contenders at all sizes; in a child process, runs one contender at one size."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--times", type=int, nargs="*", default=[1, 8, 67])
    parser.add_argument("--only", choices=CONTENDERS)
    parser.add_argument("--keep", action="store_true", help="write docs/figures and the tables")
    parser.add_argument("--child", nargs=3, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        name, data, root = args.child
        if name == "stock":  # TFX's example fails with Keras 3 on TFX 1.16
            os.environ["TF_USE_LEGACY_KERAS"] = "1"
        print(f"\n{json.dumps(contend(name, Path(data), Path(root)))}", flush=True)
        os._exit(0)
    runs: dict[str, dict[str, Run]] = {}
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as scratch:
        folder = Path(scratch)
        for data, rows in (prepare(folder, times) for times in args.times):
            for name in [args.only] if args.only else CONTENDERS:
                print(f"{rows:,} trips: {name}", file=sys.stderr, flush=True)
                child = ["--child", name, str(data), str(folder / f"{name}-{rows}")]
                out = run_script(__file__, child, name)
                runs.setdefault(name, {})[f"{rows}"] = json.loads(out.splitlines()[-1])
    from penstock.benchmarks import figures

    print("\n".join([*figures.stages(runs), "", *figures.memory(runs)]))
    if args.keep:
        figures.keep_runs(runs)
        figures.write_tables()


if __name__ == "__main__":
    main()
