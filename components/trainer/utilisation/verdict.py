"""Verdict on the limit of a training's speed in one sentence, with evidence and advice."""

import math

from penstock.components.errors import counted
from penstock.components.trainer.record import TrainingRecord
from penstock.components.trainer.utilisation.advice import CPU_IDLE_BELOW, input_advice
from penstock.components.trainer.utilisation.gain import InputGain, input_gain
from penstock.components.trainer.utilisation.record import Utilisation

# Below 1/20, faster input could speed up training by 5 % at most; above 1/4, it could by a
# third. In between, both sides matter.
COMPUTE_BOUND_BELOW = 0.05
INPUT_BOUND_ABOVE = 0.25


def bottleneck(training: TrainingRecord, used: Utilisation | None = None) -> str:
    """Returns `input-bound`, `compute-bound` or `balanced`, the gain, and the option to change.

    It is `unknown` of a last run without a record of its time and hardware, or one that was not
    held against the same steps without an input.
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
    kind = _kind(gain)
    if kind == "unclear":
        noise = f"the times vary by {100 * gain.noise:.0f} %"
        return f"unclear: {evidence}; {noise}: train longer, or on a quieter machine, to tell"
    knobs = _step_advice(used) if kind == "compute-bound" else input_advice(training, used)
    return f"{kind}: {'; '.join([evidence, _promise(gain), *knobs])}"


def _kind(gain: InputGain) -> str:
    compute, waits = 1 / (1 - COMPUTE_BOUND_BELOW), 1 / (1 - INPUT_BOUND_ABOVE)
    if gain.least < compute and gain.most > waits:
        return "unclear"
    if gain.times < compute:
        return "compute-bound"
    return "input-bound" if gain.times > waits else "balanced"


def _promise(gain: InputGain) -> str:
    """Returns the range of the gain to one decimal: more digits would be noise."""
    if gain.least > 100:
        return "input that costs nothing would train more than 100 times as fast"
    digits = 1 if gain.most < 10 else 0
    least, most = f"{gain.least:.{digits}f}", f"{gain.most:.{digits}f}"
    if float(least) <= 1:
        return f"faster input would gain at most {max(0, math.ceil(100 * (gain.most - 1)))} %"
    between = most if least == most else f"{least} to {most}"
    return f"input that costs nothing would train {between} times as fast"


def _waits(training: TrainingRecord) -> str:
    """Returns the verdict without a measured limit: from waits only, which a GPU does not have."""
    share, seconds = training.input_wait_share, training.seconds_per_step
    if seconds is None:
        return f"{counted(training.steps, 'step')} measured, too few to time"
    said = "steps were not compared with the same steps without an input"
    if share is None:
        return said
    return f"{100 * share:.0f} % of each {1000 * seconds:.2f} ms step waits, {said}"


def _step_advice(used: Utilisation) -> tuple[str, ...]:
    """Returns advice for a faster step, if the record shows what it lacks."""
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
