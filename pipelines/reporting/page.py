"""Renders facts as HTML from the templates. Data is escaped, and a page loads no other file."""

import functools
import re
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup, escape

from penstock.components.errors import counted
from penstock.components.evaluator.evaluation import MIN_SLICE_EXAMPLES, Curves, Evaluation
from penstock.components.evaluator.slice_metrics import EXAMPLE_COUNT, OVERALL
from penstock.components.trainer.record import EpochRecord, TrainingRecord
from penstock.pipelines.reporting import graph, numbers, plots
from penstock.pipelines.reporting.compare import Comparison
from penstock.pipelines.reporting.evaluation_facts import DECIDES_AT, EvaluationFacts
from penstock.pipelines.reporting.gather import Report
from penstock.pipelines.runs.rivals import loss_text
from penstock.pipelines.terminal.tables import human_bytes

_TEMPLATES = Path(__file__).parent / "templates"
_NAMED_SLICES = 3


def render_report(report: Report) -> str:
    return _render("report.html", r=report)


def render_evaluation(evaluation: EvaluationFacts, name: str) -> str:
    """Returns a page that contains only the report's section on the evaluation."""
    others = {"rivals": (), "images": None, "labels": ()}
    facts = {"evaluation": evaluation, "name": name, **others}
    return _render("evaluation_page.html", r=facts)


def render_comparison(comparison: Comparison) -> str:
    return _render("compare.html", c=comparison)


def render_section(name: str, title: str, **facts: Any) -> str:
    return _render("section.html", name=name, title=title, r=facts)


def render_parts(sections: Sequence[str]) -> str:
    return _render("parts.html", parts=[Markup(section) for section in sections])


def _render(template: str, **values: Any) -> str:
    return _environment().get_template(template).render(**values)


@functools.cache
def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_TEMPLATES),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    for name in ("compact", "percent", "duration", "signed", "metric"):
        environment.filters[name] = getattr(numbers, name)
    environment.filters.update(
        loss=loss_text,
        plain="{:g}".format,
        n=lambda names: [(name, "n") for name in names],  # titles of columns of numbers
        breaks=_breaks,
        bytes=human_bytes,
        clock=lambda seconds: time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seconds)),
    )
    environment.globals.update(
        counted=counted,
        OVERALL=OVERALL,
        EXAMPLE_COUNT=EXAMPLE_COUNT,
        MIN_SLICE_EXAMPLES=MIN_SLICE_EXAMPLES,
        DECIDES_AT=DECIDES_AT,
        plots=plots,
        curves=_curves,
        curves_of_two=_curves_of_two,
        slice_plot=_slice_plot,
        decision_plots=_decision_plots,
        draw=lambda nodes: graph.draw({node.node: node.upstream for node in nodes}),
        BOX_WIDTH=graph.BOX_WIDTH,
        BOX_HEIGHT=graph.BOX_HEIGHT,
    )
    return environment


def _breaks(name: str) -> Markup:
    """Lets a long name break only after `_`, `.`, `/`, `=` and `-`."""
    return Markup(re.sub(r"(?<=[_./=-])(?=\w)", "<wbr>", str(escape(name))))


def _curves(training: TrainingRecord) -> list[tuple[str, Markup]]:
    epochs = training.epochs
    names = dict.fromkeys(n for e in epochs for n in e.metrics if not n.startswith("val_"))
    curves = {
        name: [*_line("train", epochs, name), *_line("eval", epochs, f"val_{name}")]
        for name in sorted(names, key=lambda name: name != "loss")
    }
    rates = [e.learning_rate for e in epochs]
    if len(set(rates)) > 1:
        curves["learning rate"] = [plots.Line("learning rate", [e.step for e in epochs], rates)]
    return [
        (name, plots.line_plot(f"curve{i}", name, lines, resumed=training.resumed_from))
        for i, (name, lines) in enumerate(curves.items())
    ]


def _line(label: str, epochs: Sequence[EpochRecord], metric: str) -> list[plots.Line]:
    points = [(e.step, e.metrics[metric]) for e in epochs if metric in e.metrics]
    return [plots.Line(label, *zip(*points, strict=True))] if points else []


def _curves_of_two(comparison: Comparison) -> list[tuple[str, Markup]]:
    """Returns plots of the training curves of two runs, by metric; none for more runs."""
    trainings = [run.training.epochs for run in comparison.runs if run.training]
    if len(comparison.runs) > 2 or len(trainings) < 2:
        return []
    drawn = []
    for i, name in enumerate(dict.fromkeys(n for e in trainings[-1] for n in e.metrics)):
        pair = zip(("before", "after"), trainings, strict=True)
        lines = [line for label, epochs in pair for line in _line(label, epochs, name)]
        drawn.append((name, plots.line_plot(f"curve{i}", name, lines)))
    return drawn


def _slice_plot(result: Evaluation) -> Markup | None:
    metric = result.deciding_metric
    overall = result.metrics.get(OVERALL, {}).get(metric or "")
    if metric is None or overall is None:
        return None
    points = {
        name: (values[EXAMPLE_COUNT], values[metric])
        for name, values in result.metrics.items()
        if name != OVERALL and metric in values and values.get(EXAMPLE_COUNT, 0) > 0
    }
    if len(points) < 2:
        return None
    named = [name for name in result.worst_slices(_NAMED_SLICES) if name in points]
    return plots.slice_plot("slices", metric, points, overall=overall, named=named)


def _decision_plots(curves: Curves) -> list[Markup]:
    found = curves.decisions
    if not found:
        return []
    at = curves.decision_at(DECIDES_AT)
    roc = plots.decision_plot(
        "roc",
        "ROC",
        [(0.0, 0.0), *((one.alarm_rate, one.recall) for one in found)],
        (at.alarm_rate, at.recall),
        x_label="false alarms, share of the negatives",
        y_label="recall",
    )
    curve = plots.decision_plot(
        "pr",
        "Precision and recall",
        [(one.recall, one.precision or 0.0) for one in found if one.hits],
        (at.recall, at.precision or 0.0),
        x_label="recall",
        y_label="precision",
    )
    return [roc, curve]
