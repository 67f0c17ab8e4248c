"""The taxi pipeline as whole processes: TFX's own example, `penstock run taxi`; run twice.

Claim: at most 0.6 of the stock example's time, after as many training examples (1,000 steps
of 40) and with no worse accuracy; a second, unchanged run at most half of stock's.

    python benchmarks/taxi.py                      about 6 minutes

Stock is `tfx/examples/chicago_taxi_pipeline/taxi_pipeline_native_keras.py` as the wheel ships
it, on LocalDagRunner with one Beam worker in the process, the fastest that it has for this
data; under legacy Keras, because it fails with Keras 3 on TFX 1.16.
"""

import argparse
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

STOCK_ENVIRONMENT = {"TF_USE_LEGACY_KERAS": "1"}


@dataclass(frozen=True)
class Run:
    """One process from start to end."""

    wall_seconds: float
    cpu_seconds: float


def run_stock(root: Path, data: Path | None = None) -> None:
    """TFX's example on its own data or other trips, its files below `root`; in this process."""
    from tfx.examples.chicago_taxi_pipeline import taxi_pipeline_native_keras as stock
    from tfx.orchestration.local.local_dag_runner import LocalDagRunner

    example = Path(stock.__file__).parent
    module_file = root / "taxi_utils_native_keras.py"
    if not module_file.exists():
        root.mkdir(parents=True, exist_ok=True)
        shutil.copy(example / module_file.name, module_file)
    LocalDagRunner().run(
        stock._create_pipeline(
            pipeline_name="stock",
            pipeline_root=str(root / "pipeline"),
            data_root=str(data or example / "data" / "simple"),
            module_file=str(module_file),
            serving_model_dir=str(root / "serving_model"),
            metadata_path=str(root / "metadata.sqlite"),
            beam_pipeline_args=[
                "--runner=apache_beam.runners.portability.fn_api_runner.FnApiRunner",
                "--direct_running_mode=in_memory",
            ],
        )
    )


def timed(command: list[str], environment: dict[str, str]) -> Run:
    """Run a command to its end."""
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(
        command, env={**os.environ, **environment}, capture_output=True, text=True
    )
    wall, after = time.perf_counter() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stderr[-2000:]}")
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Run(wall, cpu)


def round_of(folder: Path) -> dict[str, Run]:
    """Both contenders, twice each, from nothing."""
    stock = [sys.executable, __file__, "--stock", str(folder / "stock")]
    penstock = str(Path(sys.executable).with_name("penstock"))
    ours = [penstock, "run", "taxi", "--set", f"root={folder / 'penstock'}"]
    runs = {}
    for name in ("first run", "second run"):
        runs[f"stock, {name}"] = timed(stock, STOCK_ENVIRONMENT)
        runs[f"Penstock, {name}"] = timed(ours, {})
    return runs


def accuracy(root: Path) -> float:
    """Binary accuracy on the eval split, as the Evaluator below `root` wrote it."""
    from penstock.pipelines.runs.evaluation_result import OVERALL, read_evaluation

    first = min((root / "pipeline" / "Evaluator" / "evaluation").iterdir(), key=lambda p: p.name)
    return read_evaluation(str(first)).metrics[OVERALL]["binary_accuracy"]


def main() -> None:
    """Run the benchmark, or, as a child of it, the stock example."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--stock", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.stock:
        run_stock(args.stock)
        return
    rounds: list[dict[str, Run]] = []
    accuracies: dict[str, float] = {}
    for number in range(args.rounds):
        print(f"round {number + 1} of {args.rounds}", file=sys.stderr, flush=True)
        with tempfile.TemporaryDirectory(prefix="penstock-bench-") as folder:
            rounds.append(round_of(Path(folder)))
            accuracies = {n: accuracy(Path(folder) / n) for n in ("stock", "penstock")}
    medians = {
        name: Run(
            statistics.median(r[name].wall_seconds for r in rounds),
            statistics.median(r[name].cpu_seconds for r in rounds),
        )
        for name in rounds[0]
    }
    if args.json:
        print(json.dumps({"runs": {n: asdict(r) for n, r in medians.items()}, **accuracies}))
        return
    print(f"taxi pipeline, whole process, {len(os.sched_getaffinity(0))} cores\n")
    for name, run in medians.items():
        reference = medians["stock, " + name.rpartition(", ")[2]]
        share = run.wall_seconds / reference.wall_seconds
        print(f"{name:22} {run.wall_seconds:6.1f} s {run.cpu_seconds:7.1f} s CPU {share:6.2f}")
    print(", ".join(f"accuracy of {name} {value:.3f}" for name, value in accuracies.items()))


if __name__ == "__main__":
    main()
