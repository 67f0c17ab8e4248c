"""Says in one sentence what limits a training's speed, with evidence and advice.

The evidence is pairs of timings: steps of the run, and the same steps without an input. In a long
run each pair is measured close together, so that other work on the machine slows both. On a CPU,
the waits for input, measured in every step, are a lower bound of the gain; if cores are idle, they
are an upper bound, too.
"""

import math
from dataclasses import dataclass

import numpy as np

from penstock.components.errors import counted
from penstock.components.trainer.record import TrainingRecord
from penstock.components.trainer.utilisation.advice import (
    CPU_IDLE_BELOW,
    CPU_SATURATED_ABOVE,
    input_advice,
)
from penstock.components.trainer.utilisation.record import Utilisation

# Below 0.05, faster input could speed up training by 5 % at most; above 0.25, by a third or more.
# In between, both input and computation matter.
COMPUTE_BOUND_BELOW = 0.05
INPUT_BOUND_ABOVE = 0.25
# A part of the run outside the steps is named if it takes at least this share.
_WORTH_A_WORD = 0.2
# By so much, two equal trainings differ on a quiet machine.
_LEAST_NOISE = 0.02
# Student's t for the 95 % interval of a mean of at least so many samples.
_T = {11: 2.2, 6: 2.6, 4: 3.2, 3: 4.3, 2: 12.7}
# Width of the middle half of a normal distribution, in standard deviations; and the error of its
# median, as a multiple of the error of its mean.
_MIDDLE_HALF, _MEDIAN_ERROR = 1.35, 1.25
# If others keep more than the first share of the cores busy, and all together more than the second,
# a wait for input may be a wait for a core: sleeps of 10 ms once looked like a gain of 5.7 times.
_MOST_OTHERS, _CROWDED = 0.25, 0.7
# A larger wait share counts as this one: the steps themselves then hardly matter.
_MOST_WAITS = 0.9999


@dataclass(frozen=True)
class InputGain:
    """How much faster a training would be if its input cost nothing, with a 95 % interval."""

    step_seconds: float  # mean over the steady steps
    limit_seconds: float  # median over the same steps on a batch that stays on the device
    times: float
    least: float
    most: float

    @property
    def share(self) -> float:
        """Share of a step's time, 0..1, in which it waits for its input or is slowed down by it."""
        return max(0.0, 1 - 1 / self.times)


def input_gain(used: Utilisation) -> InputGain | None:
    """Returns the gain that a run's record shows; None if there are too few steps to time."""
    steps = np.asarray(used.batches.seconds)
    if used.limit is None or len(steps) < 2 or len(used.limit.calls) < 2:
        return None
    calls = np.asarray(used.limit.calls)
    # Samples taken after the run are paired with parts of the run in turn, for the spread of both.
    parts = np.array_split(steps, len(calls)) if len(steps) >= len(calls) else [steps] * len(calls)
    run = used.limit.run or [part.mean() for part in parts]
    ratios = np.asarray(run) / calls
    low, middle, high = (float(value) for value in np.quantile(ratios, (0.25, 0.5, 0.75)))
    # Bursts of the input show in the mean of all steps; drift of the machine shows only in pairs.
    times = middle if used.limit.run else float(steps.mean()) / used.limit.seconds
    t = next(t for least, t in _T.items() if len(ratios) >= least)
    error = _MEDIAN_ERROR * t * (high - low) / _MIDDLE_HALF / math.sqrt(len(ratios)) / times
    noise = 1 + math.hypot(error, _LEAST_NOISE)
    least, most = times / noise, times * noise
    if (waits := used.wait_share) is not None:
        waited = 1 / (1 - min(waits, _MOST_WAITS))
        busy = max(used.cpu_share or 0.0, used.machine_busy_share or 0.0)
        if busy < CPU_SATURATED_ABOVE and waits < INPUT_BOUND_ABOVE:
            # If cores are idle, the input delays a step only by the wait for it.
            times, most = min(times, waited), min(most, waited * (1 + _LEAST_NOISE))
        times, least = max(times, waited), max(least, waited / (1 + _LEAST_NOISE))
        least, most = min(least, times), max(most, times)
    return InputGain(float(steps.mean()), used.limit.seconds, times, least, most)


def bottleneck(training: TrainingRecord, used: Utilisation | None = None) -> str:
    """Returns `input-bound`, `compute-bound`, `balanced` or `unclear`, by how much, and advice.

    Returns `unknown` if time and hardware, or steps without an input, were not recorded.
    """
    gain = input_gain(used) if used is not None else None
    if used is None or gain is None:
        return f"unknown: {_waits(training)}"
    assert used.limit is not None
    rate = training.examples_per_second
    place = "on the GPU" if used.limit.on_gpu else "in memory"
    evidence = (
        f"{1000 * gain.step_seconds:.2f} ms a step"
        + (f" ({rate:,.0f} examples/s)" if rate is not None else "")
        + f", {1000 * gain.limit_seconds:.2f} ms on one batch that is already {place}"
    )
    if used.gpu_idle_share is not None:
        evidence += f"; by a profile the GPU stands still {100 * used.gpu_idle_share:.0f} % of it"
    kind, others = _kind(gain), used.others_busy_share or 0.0
    if others > _MOST_OTHERS and (used.machine_busy_share or 1.0) > _CROWDED:
        said = f"other processes kept {100 * others:.0f} % of the machine's cores busy"
        return f"unclear: {evidence}; {said}: train on a quieter machine to tell"
    if kind == "unclear":
        spread = f"the gain may be {gain.least:.1f} to {gain.most:.1f} times"
        return f"unclear: {evidence}; {spread}: train longer, or on a quieter machine, to tell"
    knobs = _step_advice(used) if kind == "compute-bound" else input_advice(training, used)
    shares = _other_shares(training, used)
    return f"{kind}: {'; '.join([evidence, _promise(gain), *knobs, *shares])}"


def _kind(gain: InputGain) -> str:
    compute, waits = 1 / (1 - COMPUTE_BOUND_BELOW), 1 / (1 - INPUT_BOUND_ABOVE)
    if gain.least < compute and gain.most > waits:
        return "unclear"
    if gain.times < compute:
        return "compute-bound"
    if gain.least < 1:  # the spread is larger than the effect
        return "unclear"
    return "input-bound" if gain.times > waits else "balanced"


def _other_shares(training: TrainingRecord, used: Utilisation) -> tuple[str, ...]:
    """Returns the shares of parts outside the steps: evaluation, and the first step."""
    evaluation = sum(epoch.end_seconds - epoch.trained_seconds for epoch in used.epochs)
    parts = {
        "evaluation": evaluation,
        "the first step, with the start of the input,": training.first_step_seconds or 0.0,
    }
    return tuple(
        f"{name} took {100 * seconds / training.seconds:.0f} % of the run"
        for name, seconds in parts.items()
        if seconds > _WORTH_A_WORD * training.seconds
    )


def _promise(gain: InputGain) -> str:
    """Returns the range of the gain to one decimal; more digits would only show noise."""
    if gain.least > 100:
        return "input that costs nothing would train more than 100 times as fast"
    digits = 1 if gain.most < 10 else 0
    least, most = f"{gain.least:.{digits}f}", f"{gain.most:.{digits}f}"
    if float(least) <= 1:
        percent = math.ceil(round(100 * (gain.most - 1), 6))
        return f"faster input would gain at most {max(0, percent)} %"
    between = most if least == most else f"{least} to {most}"
    return f"input that costs nothing would train {between} times as fast"


def _waits(training: TrainingRecord) -> str:
    """Returns a verdict without a measured limit, from the waits only, which a GPU lacks."""
    share, seconds = training.input_wait_share, training.seconds_per_step
    if seconds is None:
        return f"{counted(training.steps, 'step')} measured, too few to time"
    said = "steps were not compared with the same steps without an input"
    if share is None:
        return said
    return f"{100 * share:.0f} % of each {1000 * seconds:.2f} ms step waits, {said}"


def _step_advice(used: Utilisation) -> tuple[str, ...]:
    if used.cpu_share is None:
        return ()
    busy = used.gpu_busy_share
    if used.gpu_idle_share is not None:
        busy = 1 - used.gpu_idle_share
    if busy is not None:
        said = f"the GPU is {100 * busy:.0f} % busy"
        if busy < CPU_IDLE_BELOW:
            return (f"{said}, its steps too short: larger batches help",)
        return (f"{said}: mixed_precision or a smaller model would help",)
    return (
        f"the step keeps {100 * used.cpu_share:.0f} % of {counted(used.cores, 'core')} busy: "
        "an accelerator, or a smaller model would help",
    )
