"""Contenders that train by `penstock.components.trainer`: processes of their own, in turn, medians.

The figures are those of the records that every training leaves: steady steps alone, without
tracing, evaluation and checkpoints.
"""

import math
import statistics
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from penstock.benchmarks.harness import peak_mib_now, runs_in_turn
from penstock.benchmarks.input import BATCH_SIZE
from penstock.components.errors import UsageError

CALIBRATION_STEPS = 40


@dataclass(frozen=True)
class TrainedOptions:
    """What is trained on, and how often.

    Attributes:
        rows: Rows of the made table of 40 columns.
        seconds: How long each training lasts, in steady steps.
        rounds: How often each runs.
    """

    rows: int = 131_072
    seconds: float = 3.0
    rounds: int = 1

    def __post_init__(self) -> None:
        if self.rows < 1 or self.rows % BATCH_SIZE:
            raise UsageError(f"rows must be a multiple of {BATCH_SIZE}, got {self.rows}")
        if self.rounds < 1 or self.seconds <= 0:
            raise UsageError("rounds must be at least 1, and seconds more than 0")


Figures = Mapping[str, Any]


def train_for(
    seconds: float,
    build_model: Callable[[], Any],
    make_data: Callable[[], Any],
    *,
    batch_rows: int,
    facts: Any = None,
    calibration_steps: int = CALIBRATION_STEPS,
    profile_seconds: float = 0.0,
    **options: Any,
) -> dict[str, Any]:
    """Train for about that long, and say how it went.

    Args:
        seconds: Steady steps, waits included.
        build_model: As `train` takes it.
        make_data: Endless batches of `batch_rows` rows.
        batch_rows: Rows a step.
        facts: What the input reads, for the verdict.
        calibration_steps: Trained before, to know how long a step takes.
        profile_seconds: How long steps are profiled afterwards, for the GPU's idle share.
        options: Of `TrainOptions`.
    """
    from penstock.components.trainer.loop import train
    from penstock.components.trainer.options import TrainOptions
    from penstock.components.trainer.utilisation.verdict import bottleneck, input_gain

    def run(steps: int, profile_steps: int = 0) -> Any:
        with tempfile.TemporaryDirectory(prefix="penstock-bench-") as folder:
            how = TrainOptions(max_steps=steps, profile_steps=profile_steps, **options)
            data = make_data()
            return train(build_model, data, options=how, model_run_dir=folder, input_facts=facts)

    a_second = 1 / run(calibration_steps).record.seconds_per_step
    trained = run(
        max(calibration_steps, int(seconds * a_second)), math.ceil(profile_seconds * a_second)
    )
    used, epochs = trained.utilisation, trained.utilisation.epochs
    rows = batch_rows * sum(epoch.steps for epoch in epochs)
    wall = sum(epoch.step_seconds for epoch in epochs)
    gain = input_gain(used)
    assert gain is not None
    return {
        "rows_per_second": rows / wall,
        "step_ms": 1000 * wall * batch_rows / rows,
        "limit_ms": 1000 * gain.limit_seconds,
        "gain": gain.times,
        "noise": gain.most / gain.times - 1,
        "wait_share": trained.record.input_wait_share,
        "cpu_us_per_row": 1e6 * sum(epoch.cpu_seconds for epoch in epochs) / rows,
        "peak_mib": peak_mib_now(),
        "gpu_busy_share": used.gpu_busy_share,
        "gpu_idle_share": used.gpu_idle_share,
        "gpu_memory_mib": max((max(gpu.memory_mib) for gpu in used.machine.gpus), default=None),
        "first_step_seconds": trained.record.first_step_seconds,
        "verdict": bottleneck(trained.record, used),
    }


def in_turn(
    script: str, names: Sequence[str], arguments: Sequence[str], rounds: int
) -> dict[str, dict[str, Any]]:
    """The medians of each contender over the rounds, all in each round; see `runs_in_turn`."""
    runs = runs_in_turn(script, [(name, arguments) for name in names], rounds)
    return {name: _medians(figures) for name, figures in runs.items()}


def _medians(runs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    middle: dict[str, Any] = {}
    for name in runs[0]:
        values = [run[name] for run in runs]
        numbers = all(isinstance(value, int | float) for value in values)
        middle[name] = statistics.median(values) if numbers else values[-1]
    return middle
