"""Contenders that train by `penstock.components.trainer`: processes of their own, in turn, medians.

The figures are those of the records that every training leaves: steady steps alone, without
tracing, evaluation and checkpoints.
"""

import json
import os
import platform
import statistics
import tempfile
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from penstock.benchmarks.harness import runs_in_turn

# Quiet is what a child's output has to be; TensorFlow reads this when it is imported.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

CALIBRATION_STEPS = 40
Figures = Mapping[str, Any]


def train_for(
    seconds: float,
    build_model: Callable[[], Any],
    make_data: Callable[[], Any],
    *,
    batch_rows: int,
    facts: Any = None,
    **options: Any,
) -> dict[str, Any]:
    """Train for about that long, and say how it went.

    Args:
        seconds: Steady steps, waits included.
        build_model: As `train` takes it.
        make_data: Endless batches of `batch_rows` rows.
        batch_rows: Rows a step.
        facts: What the input reads, for the verdict.
        options: Of `TrainOptions`.
    """
    from penstock.components.trainer.loop import train
    from penstock.components.trainer.options import TrainOptions
    from penstock.components.trainer.utilisation.verdict import bottleneck

    def run(steps: int) -> Any:
        with tempfile.TemporaryDirectory(prefix="penstock-bench-") as folder:
            how = TrainOptions(max_steps=steps, **options)
            data = make_data()
            return train(build_model, data, options=how, model_run_dir=folder, input_facts=facts)

    first = run(CALIBRATION_STEPS)
    steps = max(CALIBRATION_STEPS, int(seconds / first.record.seconds_per_step))
    trained = run(steps)
    used, epochs = trained.utilisation, trained.utilisation.epochs
    rows = batch_rows * sum(epoch.steps for epoch in epochs)
    wall = sum(epoch.step_seconds for epoch in epochs)
    return {
        "rows_per_second": rows / wall,
        "step_ms": 1000 * wall * batch_rows / rows,
        "wait_share": sum(epoch.wait_seconds for epoch in epochs) / wall,
        "cpu_us_per_row": 1e6 * sum(epoch.cpu_seconds for epoch in epochs) / rows,
        "gpu_busy_share": used.gpu_busy_share,
        "first_step_seconds": trained.record.first_step_seconds,
        "verdict": bottleneck(trained.record, used),
    }


def in_turn(
    script: str, names: Sequence[str], arguments: Sequence[str], rounds: int
) -> dict[str, dict[str, Any]]:
    """The medians of each contender over the rounds, all contenders in each round.

    Args:
        script: The benchmark's file; called as `script --contender NAME ARGUMENTS`.
        names: The contenders.
        arguments: What each gets.
        rounds: How often.
    """
    runs = runs_in_turn(script, [(name, arguments) for name in names], rounds)
    return {name: _medians(figures) for name, figures in runs.items()}


def _medians(runs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    middle: dict[str, Any] = {}
    for name in runs[0]:
        values = [run[name] for run in runs]
        numbers = all(isinstance(value, int | float) for value in values)
        middle[name] = statistics.median(values) if numbers else values[-1]
    return middle


def report(title: str, results: Mapping[str, Figures], base: str, *, as_json: bool) -> None:
    """Print the medians, each rate, a second and a CPU second, as a multiple of `base`."""
    if as_json:
        print(json.dumps(results, indent=1))
        return
    cores = len(os.sched_getaffinity(0))
    print(f"{title}\n{platform.machine()}, {cores} cores, Python {platform.python_version()}\n")
    print(
        f"{'':30} {'rows/s':>11} {'x':>6} {'ms/step':>8} {'CPU us/row':>11} {'x':>6} {'waits':>6} "
        f"{'GPU':>5} {'1st s':>6}"
    )
    for name, r in results.items():
        rate = r["rows_per_second"] / results[base]["rows_per_second"]
        cpu = results[base]["cpu_us_per_row"] / r["cpu_us_per_row"]
        gpu = "-" if r["gpu_busy_share"] is None else f"{100 * r['gpu_busy_share']:.0f} %"
        print(
            f"{name:30} {r['rows_per_second']:11,.0f} {rate:6.2f} {r['step_ms']:8.3f} "
            f"{r['cpu_us_per_row']:11.2f} {cpu:6.2f} "
            f"{100 * r['wait_share']:4.0f} % {gpu:>5} {r['first_step_seconds']:6.2f}"
        )
