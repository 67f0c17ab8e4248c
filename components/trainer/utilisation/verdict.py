"""What limits a training, in one sentence with its evidence and what to do."""

from penstock.components.trainer.record import TrainingRecord
from penstock.components.trainer.utilisation.advice import CPU_IDLE_BELOW, input_advice
from penstock.components.trainer.utilisation.record import Utilisation

# Below a twentieth, faster input could not speed training up by more than 5 %; above a quarter,
# it is worth a third. Between the two, both sides matter.
COMPUTE_BOUND_BELOW = 0.05
INPUT_BOUND_ABOVE = 0.25


def bottleneck(training: TrainingRecord, used: Utilisation | None = None) -> str:
    """`input-bound`, `compute-bound` or `balanced`, by how much, and which knob to turn.

    Args:
        training: What the training came to.
        used: Time and hardware of its last run: the evidence for advice. None gives none.
    """
    share = training.input_wait_share
    if share is None or training.seconds_per_step is None:
        return f"unknown: {training.steps} step(s) are too few to time"
    rate = training.examples_per_second
    evidence = (
        f"{100 * share:.0f} % of each {1000 * training.seconds_per_step:.2f} ms step waits for "
        "input" + (f" ({rate:,.0f} examples/s)" if rate is not None else "")
    )
    if share < COMPUTE_BOUND_BELOW:
        parts = [evidence, "faster input would gain nothing", *_step_advice(used)]
        return f"compute-bound: {'; '.join(parts)}"
    gain = f"{1 / (1 - share):.1f}" if share < 0.99 else "more than 100"
    parts = [evidence, f"input that never waits would train {gain} times as fast"]
    if used is not None:
        parts += input_advice(training, used)
    return f"{'input-bound' if share > INPUT_BOUND_ABOVE else 'balanced'}: {'; '.join(parts)}"


def _step_advice(used: Utilisation | None) -> tuple[str, ...]:
    """What would make the step faster, where the record says what it is short of."""
    if used is None or used.cpu_share is None:
        return ()
    gpu = used.gpu_busy_share
    if gpu is not None and gpu < CPU_IDLE_BELOW:
        return (
            f"the GPU(s) are {100 * gpu:.0f} % busy, their steps too short: larger batches help",
        )
    if gpu is not None:
        return (
            f"the GPU(s) are {100 * gpu:.0f} % busy: mixed_precision or a smaller model would help",
        )
    return (
        f"the step keeps {100 * used.cpu_share:.0f} % of {used.cores:g} core(s) busy: "
        "an accelerator, or a smaller model would help",
    )
