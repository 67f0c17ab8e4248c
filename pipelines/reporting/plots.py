"""Plots as inline SVG in the colours and fonts of the page.

Matplotlib draws with placeholder colours, which are then replaced by CSS variables, so that a plot
is readable in light mode, in dark mode and on paper. Text stays text and does not become outlines.
"""

import io
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from html import escape
from typing import Any

from markupsafe import Markup

from penstock.components.evaluator.evaluation import CalibrationPoint
from penstock.pipelines.reporting.evaluation_facts import DECIDES_AT
from penstock.pipelines.reporting.numbers import compact

# Placeholder colours and their CSS variables.
_INK, _MUTED, _GRID, _ONE, _TWO = "#010101", "#010102", "#010103", "#010104", "#010105"
_VARIABLES = {
    _INK: "var(--ink)",
    _MUTED: "var(--muted)",
    _GRID: "var(--grid)",
    _ONE: "var(--one)",
    _TWO: "var(--two)",
}
_COLOURS = (_ONE, _TWO)
# The points of scatter plots are raster images, because vectors of many points would add megabytes
# to the page. Their colours cannot be replaced, so this colour is readable on light and dark
# backgrounds.
_RASTER = "#4a86e0"
# Style of the line on which the points of a perfect model lie.
_AIM = {"color": _MUTED, "linewidth": 1, "linestyle": (0, (4, 3))}
_INCHES = (4.4, 2.3)
_SQUARE = (4.4, 3.6)
_STYLE = {
    "svg.fonttype": "none",
    "svg.hashsalt": "penstock",
    # Matplotlib would read dollar signs in names from the data as formulas.
    "text.parse_math": False,
    "font.size": 10,
    "axes.edgecolor": _GRID,
    "axes.labelcolor": _MUTED,
    "axes.linewidth": 0.8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.axisbelow": True,
    "grid.color": _GRID,
    "grid.linewidth": 0.8,
    "text.color": _INK,
    "xtick.color": _GRID,
    "ytick.color": _GRID,
    "xtick.labelcolor": _MUTED,
    "ytick.labelcolor": _MUTED,
    "ytick.major.size": 0,
    "xtick.major.size": 3,
    "legend.frameon": False,
}


@dataclass(frozen=True)
class Line:
    name: str
    x: Sequence[float]
    y: Sequence[float]


def line_plot(
    key: str, title: str, lines: Sequence[Line], *, x: str = "step", resumed: int | None = None
) -> Markup:
    """Plots at most two lines over steps, and the step at which a training resumed.

    `key` is unique in the page.
    """
    with _axes(x) as (figure, axes):
        highest = max((line.y[-1] for line in lines), default=0)
        for line, colour in zip(lines, _COLOURS, strict=False):
            axes.plot(line.x, line.y, color=colour, linewidth=1.8, marker="o", markersize=3)
            if len(lines) > 1:
                # One name is above its line's end, the other below, so that they do not overlap.
                up = 5 if line.y[-1] == highest else -5
                _note(axes, line.name, (line.x[-1], line.y[-1]), (5, up), color=colour, va="center")
        if resumed is not None:
            axes.axvline(resumed, color=_MUTED, linewidth=0.9, linestyle=(0, (3, 3)))
            of_height = {"xycoords": ("data", "axes fraction")}
            _note(axes, "resumed", (resumed, 1), (3, -3), color=_MUTED, va="top", **of_height)
        axes.xaxis.get_major_locator().set_params(integer=True)
        described = "; ".join(
            f"{line.name}: from {compact(line.y[0])} to {compact(line.y[-1])}" for line in lines
        )
        return _svg(figure, key, title, described)


def slice_plot(
    key: str,
    metric: str,
    slices: Mapping[str, tuple[float, float]],
    *,
    overall: float,
    named: Sequence[str],
) -> Markup:
    """Plots a metric of each slice over its number of examples; `slices` has (examples, value).

    Slices in `named` get a label.
    """
    from matplotlib.ticker import LogLocator, NullFormatter

    with _axes("examples in the slice", metric, inches=(9.6, 3.8)) as (figure, axes):
        _points(axes, *zip(*slices.values(), strict=True))
        axes.axhline(overall, color=_TWO, linewidth=1.1, linestyle=(0, (4, 3)))
        for name in named:
            _note(axes, _short(name, 40), slices[name], (6, 0), color=_MUTED, va="center")
        axes.set_xscale("log")
        axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5), numticks=8))
        axes.xaxis.set_major_formatter(lambda value, _: compact(value))
        axes.xaxis.set_minor_formatter(NullFormatter())
        described = f"{len(slices)} slices; over all examples {compact(overall)}"
        return _svg(figure, key, f"{metric} by slice", described)


def group_plot(key: str, feature: str, groups: Sequence[Mapping[str, Any]]) -> Markup:
    """Plots the mean label and mean prediction of each group of rows.

    The name of a group is a text, a number, or the ends of a range of numbers. A line joins the
    points of all groups except those with a text as name.
    """
    with _axes(feature, inches=(4.4, 3.0)) as (figure, axes):
        at = range(len(groups))
        texts = (i for i, one in enumerate(groups) if isinstance(one["name"], str))
        numbers = next(texts, len(groups))
        for value, colour, marker in (("label", _ONE, "o"), ("prediction", _TWO, "x")):
            values = [one[value] for one in groups]
            axes.plot(at, values, color=colour, linestyle="", marker=marker)
            axes.plot(at[:numbers], values[:numbers], color=colour, linewidth=1.4)
        names = [_group_name(one["name"]) for one in groups]
        short = [_short(name, 20) for name in names]
        axes.set_xticks(at, short, rotation=35, ha="right", fontsize=8)
        described = "; ".join(
            f"{name}: label {compact(one['label'])}, prediction {compact(one['prediction'])},"
            f" {one['rows']} rows"
            for name, one in zip(names, groups, strict=True)
        )
        return _svg(figure, key, f"Target by {feature}", described)


def actual_plot(key: str, actual: Sequence[float], predicted: Sequence[float]) -> Markup:
    with _axes("actual", "predicted", inches=_SQUARE) as (figure, axes):
        axes.axline((predicted[0], predicted[0]), slope=1, **_AIM)
        _points(axes, actual, predicted)
        return _svg(figure, key, "Predicted against actual", f"{len(actual)} rows")


def residual_plot(key: str, actual: Sequence[float], predicted: Sequence[float]) -> Markup:
    """Plots residuals over predictions; a well-specified model shows no pattern."""
    residuals = [said - label for said, label in zip(predicted, actual, strict=True)]
    with _axes("predicted", "predicted - actual", inches=_SQUARE) as (figure, axes):
        axes.axhline(0, **_AIM)
        _points(axes, predicted, residuals)
        mean = sum(residuals) / len(residuals)
        return _svg(figure, key, "Residuals", f"{len(residuals)} rows, mean {compact(mean)}")


def _group_name(name: Any) -> str:
    ends = name if isinstance(name, list) else [name]
    return " to ".join(one if isinstance(one, str) else compact(one) for one in ends)


def _short(text: str, most: int) -> str:
    return text if len(text) < most else f"{text[: most - 3]}..."


def _note(
    axes: Any, text: str, at: tuple[float, float], offset: tuple[float, float], **how: Any
) -> None:
    """Writes a text next to a point; the offset is in points (1/72 inch)."""
    axes.annotate(text, at, xytext=offset, textcoords="offset points", **how)


def _points(axes: Any, x: Sequence[float], y: Sequence[float], **how: Any) -> None:
    how = {"s": 10, "color": _RASTER, "alpha": 0.5, "rasterized": True, **how}
    axes.scatter(x, y, linewidths=0, **how)


def calibration_plot(key: str, points: Sequence[CalibrationPoint]) -> Markup:
    with _axes("mean prediction", "share that came true", inches=_SQUARE) as (figure, axes):
        axes.plot([0, 1], [0, 1], **_AIM)
        most = max(point.examples for point in points)
        sizes = [10 + 90 * point.examples / most for point in points]
        x, y = zip(*[(point.predicted, point.actual) for point in points], strict=True)
        _points(axes, x, y, s=sizes, color=_ONE, rasterized=False)
        return _svg(figure, key, "Calibration", f"{len(points)} groups of like predictions")


def decision_plot(
    key: str,
    title: str,
    points: Sequence[tuple[float, float]],
    mark: tuple[float, float],
    *,
    x_label: str,
    y_label: str,
) -> Markup:
    """Plots the points of thresholds as a curve, and marks the point of the decision threshold."""
    with _axes(x_label, y_label, inches=_SQUARE) as (figure, axes):
        axes.plot(*zip(*points, strict=True), color=_ONE, linewidth=1.8)
        axes.plot(*mark, color=_TWO, marker="o", markersize=7)
        _note(axes, f"at {DECIDES_AT}", mark, (8, -12), color=_TWO)
        axes.set_xlim(-0.02, 1.02)
        axes.set_ylim(-0.02, 1.02)
        return _svg(figure, key, title, f"at {DECIDES_AT}: {mark[0]:.3f}, {mark[1]:.3f}")


@contextmanager
def _axes(
    x_label: str, y_label: str = "", *, inches: tuple[float, float] = _INCHES
) -> Iterator[tuple[Any, Any]]:
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context(_STYLE):
        figure = Figure(figsize=inches)
        yield figure, figure.add_subplot(xlabel=x_label, ylabel=y_label)


def _svg(figure: Any, key: str, title: str, description: str) -> Markup:
    out = io.StringIO()
    figure.tight_layout()
    figure.set_layout_engine(None)  # otherwise `savefig` would draw twice
    nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
    figure.savefig(out, format="svg", transparent=True, metadata=nothing, dpi=160)
    return Markup(_inline(out.getvalue(), key, title, description))


def _inline(svg: str, key: str, title: str, description: str) -> str:
    """Converts Matplotlib's SVG file to an element of the page, with ids made unique by `key`."""
    (box,) = re.findall(r'<svg[^>]* viewBox="([^"]+)"', svg)
    body = svg[svg.index(">", svg.index("<svg")) + 1 :]
    # Matplotlib's style sheet is removed because it would apply to the whole page; the style sheet
    # of the page has the same rules for plots only.
    body = re.sub(r"<metadata>.*?</metadata>|<style[^>]*>.*?</style>", "", body, flags=re.DOTALL)
    body = re.sub(r'\bid="', f'id="{key}-', body)
    body = re.sub(r"url\(#", f"url(#{key}-", body).replace('href="#', f'href="#{key}-')
    body = re.sub(r" font-family: [^;\"]*;", "", body)
    for colour, variable in _VARIABLES.items():
        body = body.replace(colour, variable)
    body = re.sub(r"\n\s*", "\n", body)
    return (
        f'<svg class="plot" viewBox="{box}" role="img" aria-labelledby="{key}-t {key}-d">'
        f'<title id="{key}-t">{escape(title)}</title>'
        f'<desc id="{key}-d">{escape(description)}</desc>'
        f"{body}"
    )
