"""The cost of the monitor thread: the same steps with it and without it, in turn.

Claim: less than 1 % of the steps a second, at five looks a second.

One process, one model, one endless input; half a second with the monitor, half a second without,
the order changed at every turn, so that what else the machine does meets both alike. The median
of the turns' ratios is the cost; its error is from resampling the turns. What a busy machine
hides in its noise shows with twenty times as many looks: their cost, by twenty. The CPU time of
the looks themselves stands beside it.

    python benchmarks/monitor.py                   about 3 minutes
"""

import argparse
import json
import random
import statistics
import time
from collections.abc import Callable

from penstock.benchmarks.training_loop import make_data, make_model

WARM_UP_SECONDS = 5.0
PART_SECONDS = 0.5
CALL_STEPS = 50
AMPLIFIED = 20


def steps_a_second(train: Callable[[], int], seconds: float) -> float:
    """Calls of `train`, which says how many steps it did, until the time is over."""
    begin, steps = time.perf_counter(), 0
    while (passed := time.perf_counter() - begin) < seconds:
        steps += train()
    return steps / passed


def ratios(
    train: Callable[[], int], turns: int, interval_seconds: float
) -> tuple[list[float], float]:
    """Speed with over speed without, a turn; and the monitor's CPU time a second."""
    from penstock.components.trainer.utilisation.monitor import Monitor

    cpu_seconds, found = 0.0, []

    def watched() -> float:
        nonlocal cpu_seconds
        with Monitor(interval_seconds=interval_seconds) as monitor:
            # The first look comes after the interval: a part that is long enough to have some.
            speed = steps_a_second(train, PART_SECONDS)
        cpu_seconds += monitor.cpu_seconds
        return speed

    for turn in range(turns):
        if turn % 2:
            plain, with_monitor = steps_a_second(train, PART_SECONDS), watched()
        else:
            with_monitor, plain = watched(), steps_a_second(train, PART_SECONDS)
        found.append(with_monitor / plain)
    return found, cpu_seconds / (turns * PART_SECONDS)


def interval(values: list[float], rounds: int = 2000) -> tuple[float, float]:
    """Where the median lies in 95 of 100 resamplings."""
    chance = random.Random(0)
    medians = sorted(
        statistics.median(chance.choices(values, k=len(values))) for _ in range(rounds)
    )
    return medians[rounds // 40], medians[-rounds // 40]


def cost(train: Callable[[], int], turns: int, amplified: int) -> dict[str, float]:
    """Percent of the steps a second that the monitor costs, as of its own rate of looks."""
    from penstock.components.trainer.utilisation.monitor import INTERVAL_SECONDS

    found, cpu_share = ratios(train, turns, INTERVAL_SECONDS / amplified)
    low, high = interval(found)
    return {
        "percent": 100 * (1 - statistics.median(found)) / amplified,
        "low": 100 * (1 - high) / amplified,
        "high": 100 * (1 - low) / amplified,
        "cpu_percent": 100 * cpu_share / amplified,
    }


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=100)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    import tensorflow as tf

    from penstock.components.trainer.steps import Steps

    model = make_model()
    data, _ = make_data()
    steps = Steps(model, data, None, strategy=tf.distribute.get_strategy(), xla=False)
    steps.build()

    def train() -> int:
        steps.train(CALL_STEPS)
        return CALL_STEPS

    steps_a_second(train, WARM_UP_SECONDS)
    result = {
        "as it comes": cost(train, args.turns, 1),
        f"{AMPLIFIED} times the looks, by {AMPLIFIED}": cost(train, args.turns, AMPLIFIED),
    }
    if args.json:
        print(json.dumps(result, indent=1))
        return
    for name, figures in result.items():
        print(
            f"{name}: {figures['percent']:.2f} % fewer steps a second "
            f"({figures['low']:.2f} to {figures['high']:.2f}, 95 %), {args.turns} turns; "
            f"the looks take {figures['cpu_percent']:.2f} % of one core"
        )


if __name__ == "__main__":
    main()
