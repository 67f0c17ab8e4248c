"""Facts of a ModelEvaluation artifact for the report: `evaluation.json`, with names of classes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from penstock.components.evaluator.evaluation import Curves, Evaluation
from penstock.components.evaluator.slice_metrics import EXAMPLE_COUNT, OVERALL
from penstock.components.files.spool import local_folder
from penstock.pipelines.reporting.closer_facts import CloserFacts, class_name, gather_closer

DECIDES_AT = 0.5


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
    """An evaluation.

    Attributes:
        confusion: Confusion matrix of the first output that has one.
        closer: Error analysis of each target; empty if TFMA's own Evaluator ran.
    """

    result: Evaluation
    confusion: ConfusionFacts | None = None
    closer: Sequence[CloserFacts] = ()

    @property
    def curves(self) -> Curves:
        """Curves of the first output that has some."""
        return next(iter(self.result.curves.values()), Curves())

    @property
    def slices(self) -> list[str]:
        """Names of all slices, the worst first; slices without the deciding metric last."""
        ordered = self.result.worst_slices(len(self.result.metrics), min_examples=0)
        return [*ordered, *sorted(self.result.metrics.keys() - {*ordered, OVERALL})]

    @property
    def metrics(self) -> list[str]:
        return sorted(self.result.metrics.get(OVERALL, {}), key=lambda n: (n == EXAMPLE_COUNT, n))


def gather_evaluation(
    uri: str, classes: Mapping[str, Sequence[str]] | None = None
) -> EvaluationFacts:
    """Gathers an artifact's facts; `classes` has the class names of each label."""
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
