"""Metrics, confusion matrix and calibration of a ModelEvaluation artifact, as plain facts."""

import posixpath
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import Any

from penstock.components.evaluator.intervals import Interval, binary_counts, intervals
from penstock.components.files.spool import local_folder
from penstock.pipelines.reporting.artifact_files import read_bytes
from penstock.pipelines.reporting.closer_facts import CloserFacts, class_name, gather_closer
from penstock.pipelines.runs.baseline import Beaten
from penstock.pipelines.runs.evaluation_result import (
    EXAMPLE_COUNT,
    OVERALL,
    EvaluationResult,
    of_output,
    read_evaluation,
    read_plots,
)

_MOST_CLASSES = 40
DECIDES_AT = 0.5
_CALIBRATION_GROUPS = 20


@dataclass(frozen=True)
class Confusion:
    """Confusion matrix.

    Attributes:
        counts: Number of examples by actual class, then by predicted class.
    """

    classes: Sequence[str]
    counts: Sequence[Sequence[float]]
    origin: str


@dataclass(frozen=True)
class CalibrationPoint:
    """Group of similar predictions: mean prediction, share of positives, number of examples."""

    predicted: float
    actual: float
    examples: float


@dataclass(frozen=True)
class Decision:
    """Results of a binary model at one decision threshold.

    Attributes:
        threshold: Predictions of at least this count as positive.
        hits: True positives; all counts here are weighted.
        alarms: False positives.
    """

    threshold: float
    hits: float
    alarms: float
    positives: float
    negatives: float

    @property
    def recall(self) -> float:
        return self.hits / self.positives if self.positives else 0.0

    @property
    def alarm_rate(self) -> float:
        return self.alarms / self.negatives if self.negatives else 0.0

    @property
    def precision(self) -> float | None:
        """Precision, 0..1; None if nothing is predicted positive."""
        yeses = self.hits + self.alarms
        return self.hits / yeses if yeses else None


@dataclass(frozen=True)
class EvaluationFacts:
    """An evaluation.

    Attributes:
        decisions: Results of a binary model by falling threshold; empty without calibration plots.
        intervals: 95 % intervals of metrics by slice; empty for weighted rows.
        closer: Error analysis of each target; empty if TFMA's own Evaluator ran.
    """

    result: EvaluationResult
    confusion: Confusion | None
    calibration: Sequence[CalibrationPoint]
    decisions: Sequence[Decision] = ()
    intervals: Mapping[str, Mapping[str, Interval]] = field(default_factory=dict)
    closer: Sequence[CloserFacts] = ()

    def decision_at(self, threshold: float) -> Decision:
        reached = [one for one in self.decisions if one.threshold >= threshold]
        if reached:
            return reached[-1]
        return replace(self.decisions[0], threshold=threshold, hits=0.0, alarms=0.0)

    @property
    def slices(self) -> list[str]:
        """Names of all slices, the worst first; slices without the deciding metric last."""
        ordered = self.result.worst_slices(len(self.result.metrics), min_examples=0)
        return [*ordered, *sorted(self.result.metrics.keys() - {*ordered, OVERALL})]

    @property
    def metrics(self) -> list[str]:
        return sorted(self.result.metrics.get(OVERALL, {}), key=lambda n: (n == EXAMPLE_COUNT, n))


def gather_evaluation(uri: str, baseline: Sequence[Beaten] = ()) -> EvaluationFacts:
    """Gathers an artifact's facts; `baseline` has the class names."""
    uri = local_folder(uri)
    result = read_evaluation(uri)
    entries = (entry for where, entry in read_plots(uri) if where == OVERALL)
    plots = [entry.value for entry in entries if entry.key.model_name in ("", "candidate")]
    histograms = (plot.calibration_histogram_buckets.buckets for plot in plots)
    buckets = [b for b in next(filter(None, histograms), ()) if b.num_weighted_examples.value]
    classes = {one.label: one.classes for one in baseline}
    closer = gather_closer(uri, classes)
    words = baseline[0].classes if len(baseline) == 1 else ()
    return EvaluationFacts(
        result,
        _plotted_confusion(plots, words)
        or _computed_confusion(result.metrics.get(OVERALL, {}), words),
        _calibration(buckets),
        _decisions(buckets),
        {} if _is_weighted(uri) else _intervals(result, closer),
        closer,
    )


def _intervals(
    result: EvaluationResult, closer: Sequence[CloserFacts]
) -> dict[str, dict[str, Interval]]:
    several = len(closer) > 1
    errors = {of_output(one.target if several else "", ""): one.squares_errors for one in closer}
    found: dict[str, dict[str, Interval]] = {}
    for where, metrics in result.metrics.items():
        of_target: dict[str, dict[str, float]] = {}
        for name, value in metrics.items():
            prefix, slash, metric = name.rpartition("/")
            of_target.setdefault(prefix + slash, {})[metric] = value
        rows = metrics.get(EXAMPLE_COUNT, 0.0)
        found[where] = {
            f"{prefix}{metric}": ends
            for prefix, of in of_target.items()
            for metric, ends in intervals(
                {**of, EXAMPLE_COUNT: rows}, errors.get(prefix, {}).get(where, 0.0)
            ).items()
        }
    return found


def _is_weighted(uri: str) -> bool:
    return b"exampleWeightKey" in read_bytes(posixpath.join(uri, "eval_config.json"))


def _plotted_confusion(plots: Sequence[Any], words: Sequence[str]) -> Confusion | None:
    for plot in plots:
        many = plot.multi_class_confusion_matrix_at_thresholds.matrices
        if many:
            entries = {
                (e.actual_class_id, e.predicted_class_id): e.num_weighted_examples
                for e in many[0].entries
            }
            ids = sorted({i for pair in entries for i in pair})[:_MOST_CLASSES]
            counts = [[entries.get((actual, said), 0.0) for said in ids] for actual in ids]
            return Confusion(
                [class_name(i, words) for i in ids], counts, "from the Evaluator's plot"
            )
        two = plot.confusion_matrix_at_thresholds.matrices
        if two:
            best = min(two, key=lambda matrix: abs(matrix.threshold - DECIDES_AT))
            return Confusion(
                _two(words),
                (
                    (best.true_negatives, best.false_positives),
                    (best.false_negatives, best.true_positives),
                ),
                f"at threshold {best.threshold:.2g}, from the Evaluator's plot",
            )
    return None


def _computed_confusion(metrics: Mapping[str, float], words: Sequence[str]) -> Confusion | None:
    counts = binary_counts(metrics)
    origin = "at threshold 0.5, computed from the metrics above"
    return Confusion(_two(words), counts, origin) if counts else None


def _two(words: Sequence[str]) -> Sequence[str]:
    return words if len(words) == 2 else ("negative", "positive")


def _calibration(buckets: Sequence[Any]) -> list[CalibrationPoint]:
    """Merges TFMA's buckets, 10,000 by default, into groups of enough examples."""
    groups: dict[int, list[float]] = {}
    for bucket in buckets:
        examples = bucket.num_weighted_examples.value
        predicted = bucket.total_weighted_refined_prediction.value
        place = int(predicted / examples * _CALIBRATION_GROUPS)
        number = max(0, min(place, _CALIBRATION_GROUPS - 1))
        group = groups.setdefault(number, [0.0, 0.0, 0.0])
        group[0] += predicted
        group[1] += bucket.total_weighted_label.value
        group[2] += examples
    return [
        CalibrationPoint(predicted / examples, actual / examples, examples)
        for _, (predicted, actual, examples) in sorted(groups.items())
    ]


def _decisions(buckets: Sequence[Any]) -> list[Decision]:
    """Counts true and false positives at each threshold by running sums over TFMA's buckets.

    A bucket holds the examples whose prediction lies between its thresholds, so the sums from the
    top down to a bucket are exact for the bucket's lower threshold. Buckets without examples add
    nothing.
    """
    ordered = sorted(buckets, key=lambda b: b.lower_threshold_inclusive, reverse=True)
    labels = [b.total_weighted_label.value for b in ordered]
    others = [b.num_weighted_examples.value - b.total_weighted_label.value for b in ordered]
    positives, negatives = sum(labels), sum(others)
    if min(positives, negatives) <= 0:
        return []
    sums = zip(accumulate(labels), accumulate(others), strict=True)
    return [
        Decision(min(1.0, max(0.0, b.lower_threshold_inclusive)), *pair, positives, negatives)
        for b, pair in zip(ordered, sums, strict=True)
    ]
