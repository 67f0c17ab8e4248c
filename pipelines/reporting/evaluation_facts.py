"""Facts of a ModelEvaluation artifact for the report.

They come from `evaluation.json` and, for each target, from `error_analysis.json`: the rows with the
largest errors, a sample of labels and predictions, and the feature importance. The caller gives the
names of classes.
"""

import base64
import json
import posixpath
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from penstock.components.evaluator import ERROR_ANALYSIS_NAME
from penstock.components.evaluator.evaluation import Curves, Evaluation
from penstock.components.evaluator.slice_metrics import EXAMPLE_COUNT, OVERALL
from penstock.components.files.spool import local_folder
from penstock.components.image_features import ENCODED
from penstock.components.tfrecord.example_proto import parse_example, values_of
from penstock.pipelines.reporting.artifact_files import as_text, names_in, read_bytes
from penstock.pipelines.reporting.histograms import Bar
from penstock.pipelines.reporting.image_facts import image_label, image_source
from penstock.pipelines.reporting.numbers import compact, percent, signed

DECIDES_AT = 0.5
_MOST_SHOWN = 8  # number of features shown per row, the most important first


@dataclass(frozen=True)
class WrongRow:
    """One of the rows with the largest errors."""

    label: str
    prediction: str
    features: Mapping[str, str]
    image: str


@dataclass(frozen=True)
class CloserFacts:
    """Error analysis of one target.

    Attributes:
        balance: Number of rows by label; empty for a regression.
        importance: Increase of the mean error if a feature is shuffled, and half-width of the 95 %
            interval, by feature. The most important feature is first; features without an effect
            are left out.
        unused: Features without an effect.
        actual: Labels of sampled rows; empty if there are classes.
        against: For each of the most important features, groups of sampled rows by the feature's
            values.
        correlations: Pearson's correlations between any two of the target and the features in
            `against`.
    """

    target: str
    sampled: int
    balance: Sequence[Bar]
    wrong: Sequence[WrongRow]
    importance: Mapping[str, tuple[float, float]]
    unused: Sequence[str]
    actual: Sequence[float]
    predicted: Sequence[float]
    against: Mapping[str, Sequence[Mapping[str, Any]]]
    correlations: Mapping[str, Mapping[str, float]]


@dataclass(frozen=True)
class ConfusionFacts:
    """Confusion matrix.

    Attributes:
        counts: Number of examples by actual class, then by predicted class.
    """

    classes: Sequence[str]
    counts: Sequence[Sequence[float]]
    origin: str


@dataclass(frozen=True)
class EvaluationFacts:
    """Facts of an evaluation.

    Attributes:
        confusion: Confusion matrix of the first output that has one.
        closer: Error analysis of each target; empty if TFX's own Evaluator ran.
    """

    result: Evaluation
    confusion: ConfusionFacts | None = None
    closer: Sequence[CloserFacts] = ()

    @property
    def curves(self) -> Curves:
        """Curves of the first output that has curves."""
        return next(iter(self.result.curves.values()), Curves())

    @property
    def slices(self) -> list[str]:
        """Names of all slices, the worst first, and slices without the deciding metric last."""
        ordered = self.result.worst_slices(len(self.result.metrics), min_examples=0)
        return [*ordered, *sorted(self.result.metrics.keys() - {*ordered, OVERALL})]

    @property
    def metrics(self) -> list[str]:
        return sorted(self.result.metrics.get(OVERALL, {}), key=lambda n: (n == EXAMPLE_COUNT, n))


def gather_evaluation(
    uri: str, classes: Mapping[str, Sequence[str]] | None = None
) -> EvaluationFacts:
    """Gathers an artifact's facts; `classes` has the class names of each target."""
    uri = local_folder(uri)
    result = Evaluation.read(uri)
    closer = gather_closer(uri, classes or {})
    [words] = classes.values() if classes and len(classes) == 1 else [()]
    return EvaluationFacts(result, _confusion(result, words), closer)


def _confusion(result: Evaluation, words: Sequence[str]) -> ConfusionFacts | None:
    for found in result.confusions.values():
        of_two = found.classes == ("0", "1") and len(words) in (0, 2)
        numbers = (-1 if name == "none" else int(name) for name in found.classes)
        names = (words or ("negative", "positive")) if of_two else words
        origin = "from the Evaluator's plot" if found.plotted else "computed from the metrics above"
        if of_two:
            origin = f"at threshold {found.threshold:.2g}, {origin}"
        return ConfusionFacts([class_name(one, names) for one in numbers], found.counts, origin)
    return None


def gather_closer(uri: str, classes: Mapping[str, Sequence[str]]) -> list[CloserFacts]:
    """Returns the error analysis of each target; empty if TFX's own Evaluator ran.

    `classes` maps a target to the names of its classes, by class number, if they are known.
    """
    if ERROR_ANALYSIS_NAME not in names_in(uri):
        return []
    look = json.loads(read_bytes(posixpath.join(uri, ERROR_ANALYSIS_NAME)))
    return [
        _facts(target, raw, look["sampled"], classes.get(target, ()))
        for target, raw in look["targets"].items()
    ]


def _facts(target: str, raw: Mapping[str, Any], sampled: int, words: Sequence[str]) -> CloserFacts:
    found = sorted(raw["importance"].items(), key=lambda one: -one[1][0])
    important = {name: (mean, 1.96 * error) for name, (mean, error) in found if mean or error}
    actual, predicted = raw["sample"] or ((), ())
    return CloserFacts(
        target,
        sampled,
        [Bar(class_name(int(float(v)), words), n) for v, n in (raw["labels"] or {}).items()],
        [_wrong(row, raw["task"], words, [*important]) for row in raw["most_wrong"]],
        important,
        [name for name, _ in found if name not in important],
        actual,
        predicted,
        raw.get("against", {}),
        raw.get("correlations", {}),
    )


def _wrong(
    row: Mapping[str, Any], task: str, words: Sequence[str], important: Sequence[str]
) -> WrongRow:
    message: Any = parse_example(base64.b64decode(row["record"]))
    features = message.context.feature if message is not None else {}
    label, prediction = _said(row["label"], row["prediction"], task, words)
    images = values_of(features, ENCODED)
    order = dict.fromkeys((*important, *sorted(features)))
    shown = [name for name in order if name in features and name != ENCODED][:_MOST_SHOWN]
    return WrongRow(
        image_label(features) if images and not words else label,
        prediction,
        {name: as_text(values_of(features, name), 60) for name in shown},
        image_source(images[0]) if images else "",
    )


def _said(
    label: float, prediction: Sequence[float], task: str, words: Sequence[str]
) -> tuple[str, str]:
    if task == "regression":
        return compact(label), f"{compact(prediction[0])} ({signed(prediction[0] - label)})"
    shares = prediction if task == "classes" else (1 - prediction[0], prediction[0])
    best = max(range(len(shares)), key=shares.__getitem__)
    return class_name(int(label), words), f"{class_name(best, words)}, {percent(shares[best])}"


def class_name(number: int, words: Sequence[str]) -> str:
    """Returns the name of a class, or its number if it has no name; TFMA's -1 means no class."""
    if number == -1:
        return "none"
    return words[number] if 0 <= number < len(words) else str(number)
