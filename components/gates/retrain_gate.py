"""TFX node that decides whether this run retrains, from drift, new labels and the model's age.

Input: statistics of this run and of the run that blessed a model last. Output: `retrain`, "yes" or
"no", for the condition of later nodes, and a verdict with the reason. Neither answer fails the run.
"""

import json
import time
from collections.abc import Mapping
from typing import TypedDict

from tfx.dsl.component.experimental.annotations import InputArtifact, Parameter
from tfx.types.standard_artifacts import ExampleStatistics

from penstock.components import activity
from penstock.components.gates.drift import Statistics, by_name, distances, present
from penstock.components.gates.gate import statistics_by_split
from penstock.components.gates.options import RetrainOptions, options_component
from penstock.components.plain import from_json

YES, NO = "yes", "no"
DAY_SECONDS = 86_400


class RetrainOutputs(TypedDict):
    """Outputs of the gate: `yes` or `no`, and its reason as JSON."""

    retrain: str
    verdict: str


@options_component(RetrainOptions)
def RetrainGate(  # noqa: N802 - TFX names a node after its function
    statistics: InputArtifact[ExampleStatistics],
    options: Parameter[str],
    baseline: InputArtifact[ExampleStatistics] = None,
) -> RetrainOutputs:
    """Decides whether nodes in `Cond(gate.outputs["retrain"]...)` run or are skipped.

    Args:
        statistics: Output of StatisticsGen.
        options: A `RetrainOptions`.
        baseline: Statistics of the latest run that blessed a model, from a Resolver with
            `LatestBlessedStatisticsStrategy`; without them the answer is yes.
    """
    asked = from_json(RetrainOptions, options)
    if baseline is None:
        retrains, reason = True, "no model of other data has been blessed yet"
    else:
        made = baseline.mlmd_artifact.create_time_since_epoch / 1000
        retrains, reason = decide(
            statistics_by_split(statistics),
            statistics_by_split(baseline),
            asked,
            age_days=max(0.0, (time.time() - made) / DAY_SECONDS),
        )
    answer = YES if retrains else NO
    activity.tell(f"retrain {answer}: {reason}", is_milestone=True)
    return {"retrain": answer, "verdict": json.dumps({"retrain": retrains, "reason": reason})}


def decide(
    now: Mapping[str, Statistics],
    before: Mapping[str, Statistics],
    options: RetrainOptions,
    *,
    age_days: float,
) -> tuple[bool, str]:
    """Returns whether to retrain, and why: the limits that were reached, or all that were not.

    Args:
        now: Statistics of this run by split.
        before: Statistics of the run that blessed a model last.
        options: Limits; the run retrains if at least one of them is reached.
        age_days: Days since `before` was computed.
    """
    if not options.is_set:
        return True, "no limit is set"
    reached, missed = list[str](), list[str]()

    def judge(is_reached: bool, text: str) -> None:
        (reached if is_reached else missed).append(text)

    if options.drift < 1:
        distance, place = _largest_drift(now, before, options)
        judge(distance > options.drift, f"drift {distance:.2f} {place}, limit {options.drift:g}")
    if options.new_rows:
        rows = _labelled(now, options) - (0 if options.by_span else _labelled(before, options))
        text = f"{max(0, rows):,} new labelled rows, limit {options.new_rows:,}"
        judge(rows >= options.new_rows, text)
    if options.age_days:
        text = f"{age_days:.1f} days since the last blessed model's data, limit "
        judge(age_days >= options.age_days, f"{text}{options.age_days:g}")
    return bool(reached), "; ".join(reached or missed)


def _largest_drift(
    now: Mapping[str, Statistics], before: Mapping[str, Statistics], options: RetrainOptions
) -> tuple[float, str]:
    found = [
        (distance, f"of '{name}' in split '{split}'")
        for split in now
        if split in before and now[split].num_examples and before[split].num_examples
        for name, distance in distances(before[split], now[split])
        if name not in options.ignored
    ]
    return max(found, default=(0.0, "without a feature to compare"))


def _labelled(splits: Mapping[str, Statistics], options: RetrainOptions) -> int:
    rows = 0
    for statistics in splits.values():
        features = by_name(statistics)
        counts = [present(features[one]) if one in features else 0 for one in options.labels]
        rows += min(counts, default=int(statistics.num_examples))
    return rows
