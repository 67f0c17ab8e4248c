"""Says in one sentence whether the input limits a training's speed, and by how much.

Input: durations of the run's steps, and of the same compiled step repeated on one batch (the kept
batch). Output: the gain from an input that costs nothing, as a range. The verdict is `unclear` only
if other processes took so much CPU time that this process may have waited for a core instead of its
input. It is `unknown` for a short run whose range is wide.
"""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from penstock.components.errors import counted

# With a gain below a factor of 1.05, a faster input hardly matters; with a gain above a factor of
# 1.33, it saves a quarter of the time or more.
_COMPUTE_BOUND_BELOW = 1.05
_INPUT_BOUND_ABOVE = 4 / 3
# Relative difference in speed between two equal trainings on a quiet machine.
_LEAST_NOISE = 0.03
# Student's t for the 95 % interval of a mean, by the number of values; above 10 values, 2 is used.
_T = {2: 12.7, 3: 4.3, 4: 3.2, 5: 2.8, 6: 2.6, 7: 2.4, 8: 2.4, 9: 2.3, 10: 2.3}
# Other processes matter if they kept more than `_MOST_OTHERS` of the cores busy, and if all
# processes together kept more than `_CROWDED` of them busy.
_MOST_OTHERS, _CROWDED = 0.25, 0.8
_MOST_GPU_IDLE = 0.2
# A range of the gain within +-30 % is narrow enough to tell the verdicts apart; a run of half a
# minute usually reaches it.
_WIDE, _SHORT_SECONDS = 0.3, 30.0


@dataclass(frozen=True)
class Speed:
    """Durations and CPU use of a training's steps, except the first, which includes compiling."""

    run_seconds: Sequence[float]  # mean seconds per step in each of at most 19 parts
    kept_seconds: Sequence[float]  # seconds per step in each call on the kept batch
    steps: int  # number of steps of the run that were timed
    cores: float  # number of cores that this process may use
    own_share: float  # share of `cores` that this process kept busy, 0..1
    others_share: float  # the same share for all other processes in the cgroup
    gpu_idle_share: float | None  # 0..1, mean over the GPUs; None without GPUs


@dataclass(frozen=True)
class Gain:
    """Factor by which training would be faster if its input cost nothing, and its 95 % interval."""

    times: float
    least: float
    most: float


def input_gain(speed: Speed) -> Gain:
    """Returns the gain.

    Its interval comes from the spread of the seconds per step, both in the run and on the kept
    batch, and is at least +-3 %.
    """
    times = statistics.fmean(speed.run_seconds) / statistics.median(speed.kept_seconds)
    spread = math.hypot(_error(speed.run_seconds), _error(speed.kept_seconds), _LEAST_NOISE)
    return Gain(times, times / (1 + spread), times * (1 + spread))


def verdict(speed: Speed | None, batch_rows: int | None = None) -> str:
    """Returns `input-bound`, `balanced`, `compute-bound` or `unclear`, with the evidence.

    Returns `unknown` if the training is too short to decide.
    """
    if speed is None:
        return "unknown: too few steps to time"
    gain, step = input_gain(speed), statistics.fmean(speed.run_seconds)
    rate = f" ({batch_rows / step:,.0f} examples/s)" if batch_rows else ""
    kept = statistics.median(speed.kept_seconds)
    said = [f"{1000 * step:.2f} ms a step{rate}, {1000 * kept:.2f} ms on one kept batch"]
    cores = f"of {counted(speed.cores, 'core')}"
    others = speed.others_share
    if others > _MOST_OTHERS and speed.own_share + others > _CROWDED:
        said.append(
            f"other processes took {100 * others:.0f} % {cores}: train on a quieter machine to tell"
        )
        return f"unclear: {'; '.join(said)}"
    seconds = speed.steps * step
    if gain.most > (1 + _WIDE) * gain.times and seconds < _SHORT_SECONDS:
        return (
            f"unknown: {speed.steps:,} steps in {seconds:.1f} s are too few to tell whether the "
            "input limits the training; a longer training will"
        )
    said += [_promise(gain), f"this process used {100 * speed.own_share:.0f} % {cores}"]
    if speed.gpu_idle_share is not None:
        said.append(f"the GPU stood idle {100 * speed.gpu_idle_share:.0f} % of the time")
    kind = "balanced"
    if gain.times > _INPUT_BOUND_ABOVE:
        kind = "input-bound"
    elif gain.times < _COMPUTE_BOUND_BELOW:
        kind = "compute-bound"
        if (speed.gpu_idle_share or 0.0) > _MOST_GPU_IDLE:
            said[-1] += " between its short steps: larger batches would help"
    return f"{kind}: {'; '.join(said)}"


def _error(values: Sequence[float]) -> float:
    """Returns half of the 95 % interval of the mean, as a share of the mean."""
    half = _T.get(len(values), 2.0) * statistics.stdev(values) / math.sqrt(len(values))
    return half / statistics.fmean(values)


def _promise(gain: Gain) -> str:
    """Returns the gain's range in words, with at most one decimal; more would only show noise."""
    digits = 1 if gain.most < 10 else 0
    least, most = f"{gain.least:.{digits}f}", f"{gain.most:.{digits}f}"
    if float(least) <= 1:
        return f"faster input would gain at most {math.ceil(max(0.0, 100 * (gain.most - 1)))} %"
    between = most if least == most else f"{least} to {most}"
    return f"input that costs nothing would train {between} times as fast"
