"""Facts of an evaluation, which BatchEvaluator writes as `evaluation.json` beside TFMA's files.

    evaluation = Evaluation.read(uri)               imports no TensorFlow
    evaluation.metrics["overall"]["auc"]

Names of slices are `overall`, `hour=14`, `hour=14, kind=a`, and `hour missing` for the rows that
lack a feature. Names of metrics are TFMA's (`auc`), with a target if there are several
(`price/auc`) and with a class if TFMA computed it for one (`precision (class 2)`). Counts other
than `rows` are weighted if rows have weights.
"""

import json
import math
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace

from penstock.components.errors import DataError, UsageError, counted
from penstock.components.evaluator.slice_metrics import EXAMPLE_COUNT, OVERALL
from penstock.components.files.spool import local_folder
from penstock.components.plain import from_record

EVALUATION_NAME = "evaluation.json"
_CONFIG_OF_TFMA = "eval_config.json"
MIN_SLICE_EXAMPLES = 30  # a slice with fewer rows has metrics that are mostly chance
# A share of 1/2 observed in 100 rows has a 95 % interval of +-0.1.
_FEW_ROWS = 100

HELD_OUT = "test"
"""Name of the split that no choice of an epoch, a threshold or a blessing depends on."""

ByMetric = Mapping[str, float]


@dataclass(frozen=True)
class Threshold:
    """Threshold of a metric for a blessing, and whether it was reached in all its slices.

    Attributes:
        where: `overall` (TFMA then applies the threshold to every other slice too), `each hour`, or
            `hour=14`.
        lower: Least value; None if there is no lower bound.
        upper: Greatest value; None if there is no upper bound.
        change: Least difference from the baseline model; the greatest difference if lower values
            are better.
        relative: Like `change`, but as a share of the baseline model's value.
    """

    metric: str
    where: str
    lower: float | None = None
    upper: float | None = None
    change: float | None = None
    relative: float | None = None
    higher_is_better: bool = True
    passed: bool = True


@dataclass(frozen=True)
class Confusion:
    """Confusion matrix of all rows: `counts[i][j]` rows of class i were predicted as class j.

    `classes` are numbers as texts (`none`: no class is above the threshold); a binary model has `0`
    and `1`.
    """

    classes: tuple[str, ...]
    counts: tuple[tuple[float, ...], ...]
    threshold: float  # predictions above it count as positive
    # Whether the counts are from TFMA's plot; otherwise they were computed from metrics.
    plotted: bool = True


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
        threshold: Predictions that reach it count as positive.
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
        """Precision, 0..1; None if no example is predicted positive."""
        yeses = self.hits + self.alarms
        return self.hits / yeses if yeses else None


@dataclass(frozen=True)
class Curves:
    """Curves of one output over all rows, from a `CalibrationPlot` of the config.

    Attributes:
        decisions: Points of the ROC and the precision-recall curve, by falling threshold; empty if
            all rows have one class.
        calibration: Points by rising prediction.
    """

    decisions: tuple[Decision, ...] = ()
    calibration: tuple[CalibrationPoint, ...] = ()

    def decision_at(self, threshold: float) -> Decision:
        reached = [one for one in self.decisions if one.threshold >= threshold]
        if reached:
            return reached[-1]
        return replace(self.decisions[0], threshold=threshold, hits=0.0, alarms=0.0)


@dataclass(frozen=True)
class HeldOut:
    """Metrics, intervals and curves over all rows of the split `test`, as `Evaluation` has them."""

    rows: int
    metrics: ByMetric
    intervals: Mapping[str, tuple[float, float]]
    curves: Mapping[str, Curves]

    def decided(self, label: str, threshold: float | None) -> str:
        """States how many positives of the target `label` are found at a threshold, if known."""
        curves = self.curves.get("") or self.curves.get(label.removesuffix("_xf")) or Curves()
        if threshold is None or not curves.decisions:
            return ""
        found = curves.decision_at(threshold)
        return (
            f"on the split test it finds {found.hits:,.0f} of {found.positives:,.0f} with "
            f"{counted(round(found.alarms), 'false alarm')}"
        )


@dataclass(frozen=True)
class Evaluation:
    """An evaluation of a model.

    Attributes:
        metrics: Metrics by slice and name. Metrics that are not finite are left out, and so are
            areas under curves of slices whose rows all have one class.
        failures: Reasons not to bless the model, each a line of text.
        deciding_metric: First metric with a threshold, or the first metric if none has one.
        rows: Number of rows, unweighted; None if TFMA did not count them.
        weighted: Whether rows have weights, in which case there are no intervals.
        blessed: Whether all thresholds were reached; None without thresholds.
        baseline: Metrics of the baseline model, in the form of `metrics`.
        intervals: 95 % intervals of those `metrics` for which they can be computed.
        confusions: Confusion matrices by output; the name is empty if there is only one output.
        curves: Curves by output.
        held_out: Metrics over the split `test`, which no choice depends on; None without that
            split.
    """

    metrics: Mapping[str, ByMetric]
    failures: tuple[str, ...] = ()
    deciding_metric: str | None = None
    higher_is_better: bool = True
    rows: int | None = None
    weighted: bool = False
    blessed: bool | None = None
    baseline: Mapping[str, ByMetric] = field(default_factory=dict)
    intervals: Mapping[str, Mapping[str, tuple[float, float]]] = field(default_factory=dict)
    thresholds: tuple[Threshold, ...] = ()
    confusions: Mapping[str, Confusion] = field(default_factory=dict)
    curves: Mapping[str, Curves] = field(default_factory=dict)
    held_out: HeldOut | None = None

    @staticmethod
    def read(uri: str) -> "Evaluation":
        """Reads the evaluation of a `ModelEvaluation` artifact.

        The evaluation of TFX's own Evaluator is read by TFMA, whose import takes 5 s of CPU.

        Raises:
            DataError: There is no evaluation, or it cannot be read.
        """
        folder = local_folder(uri)
        path = os.path.join(folder, EVALUATION_NAME)
        if not os.path.exists(path) and os.path.exists(os.path.join(folder, _CONFIG_OF_TFMA)):
            from penstock.components.evaluator.summarize import summarized

            return summarized(folder)
        try:
            with open(path, encoding="utf-8") as file:
                return from_record(Evaluation, json.load(file))
        except (OSError, ValueError, UsageError) as error:
            raise DataError(
                f"{path}: no evaluation by BatchEvaluator can be read ({error}); evaluate again"
            ) from error

    def to_json(self) -> str:
        return json.dumps(asdict(self), indent=1, allow_nan=False) + "\n"

    @property
    def caution(self) -> str:
        """Sentence that warns of too few rows for a reliable verdict; empty with enough rows."""
        rows = self.metrics.get(OVERALL, {}).get(EXAMPLE_COUNT, _FEW_ROWS)
        if rows >= _FEW_ROWS:
            return ""
        return (
            f"only {rows:,.0f} rows were evaluated: below {_FEW_ROWS} whether a threshold is "
            "reached is mostly chance; evaluate on more data before you trust it"
        )

    def worst_slices(self, count: int, *, min_examples: int = MIN_SLICE_EXAMPLES) -> list[str]:
        """Returns the slices with the worst deciding metric; leaves out slices with few rows."""
        few = self.small_slices(min_examples)
        return [name for name in self._worst_first() if name not in few][:count]

    def small_slices(self, min_examples: int = MIN_SLICE_EXAMPLES) -> list[str]:
        """Returns the slices with few rows, the one with the worst deciding metric first.

        Slices without this metric come last.
        """
        ordered = dict.fromkeys((*self._worst_first(), *self.metrics))
        rows = {name: self.metrics[name].get(EXAMPLE_COUNT, math.inf) for name in ordered}
        return [name for name in ordered if name != OVERALL and rows[name] < min_examples]

    def _worst_first(self) -> list[str]:
        metric = str(self.deciding_metric)
        known = [name for name, of in self.metrics.items() if name != OVERALL and metric in of]
        sign = 1 if self.higher_is_better else -1
        return sorted(known, key=lambda name: sign * self.metrics[name][metric])
