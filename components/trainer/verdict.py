"""What limits a training, in one sentence with its evidence."""

from penstock.components.trainer.training_record import TrainingRecord

# Below a twentieth, faster input could not speed training up by more than 5 %; above a quarter,
# it is worth a third. Between the two, both sides matter.
COMPUTE_BOUND_BELOW = 0.05
INPUT_BOUND_ABOVE = 0.25


def bottleneck(record: TrainingRecord) -> str:
    """`input-bound`, `compute-bound` or `balanced`, with the figures and what to do."""
    share = record.input_wait_share
    if share is None or record.seconds_per_step is None:
        return f"unknown: {record.steps} step(s) are too few to time"
    rate = record.examples_per_second
    evidence = (
        f"{100 * share:.0f} % of each {1000 * record.seconds_per_step:.2f} ms step waits for input"
        + (f" ({rate:,.0f} examples/s)" if rate is not None else "")
    )
    if share < COMPUTE_BOUND_BELOW:
        return f"compute-bound: {evidence}; faster input would gain nothing"
    gain = 1 / (1 - share) if share < 1 else float("inf")
    advice = f"input that never waits would train {gain:.1f} times as fast"
    if share > INPUT_BOUND_ABOVE:
        return (
            f"input-bound: {evidence}; {advice}: larger batches, more shards, and rows that fit "
            "kept in memory help"
        )
    return f"balanced: {evidence}; {advice}"
