"""An `Outcome` as one HTML page that fetches nothing, in the style of the run report."""

from collections.abc import Sequence

import numpy as np

from penstock.benchmarks.outcome import Distribution, Outcome, Track, times
from penstock.pipelines.reporting.histograms import Bar
from penstock.pipelines.reporting.page import render_section
from penstock.pipelines.reporting.plots import track_plot
from penstock.pipelines.reporting.training_facts import Track as PlottedTrack

_BINS = 32
_SMOOTHING_SECONDS = 1.0


def render(outcome: Outcome) -> str:
    """The page."""
    # What is compared stands side by side: all contenders' CPU, then all contenders' memory.
    tracks = sorted((track for track in outcome.tracks if track.values), key=lambda one: one.name)
    plots = [
        (f"{track.contender}: {track.name}", track_plot(f"track{i}", _plotted(track)))
        for i, track in enumerate(tracks)
    ]
    distributions = [_histogram(one, outcome) for one in outcome.distributions if one.values]
    return render_section(
        "bench.html", o=outcome, times=times, plots=plots, distributions=distributions
    )


class _Smoothed(PlottedTrack):
    """A track whose smooth line is a Gaussian's, as the first of the texts draws it."""

    @property
    def smooth(self) -> list[float]:
        return gaussian(self.seconds, self.values, _SMOOTHING_SECONDS)


def _plotted(track: Track) -> PlottedTrack:
    points = tuple(track.seconds), tuple(track.values)
    return _Smoothed(track.name, "", *points, track.limit)


def gaussian(at: Sequence[float], values: Sequence[float], sigma: float) -> list[float]:
    """Values smoothed by a Gaussian of that standard deviation, in the unit of `at`."""
    times, raw = np.asarray(at, float), np.asarray(values, float)
    weights = np.exp(-0.5 * ((times[:, None] - times[None, :]) / sigma) ** 2)
    smooth: list[float] = (weights @ raw / weights.sum(axis=1)).tolist()
    return smooth


def _histogram(
    one: Distribution, outcome: Outcome
) -> tuple[Distribution, list[Bar], float, float, float]:
    """Bars on the scale of all of that name; and the median, the 95th percentile and the most."""
    values = np.asarray(one.values, float)
    middle, high, top = (float(np.percentile(values, q)) for q in (50, 95, 100))
    alike = (d.values for d in outcome.distributions if d.name == one.name and d.values)
    scale = max(float(np.percentile(of_one, 99)) for of_one in alike) or 1.0
    counts, edges = np.histogram(values, _BINS, (0.0, scale))
    ranges = zip(edges[:-1], edges[1:], counts, strict=True)
    bars = [Bar(f"{low:.3g} to {up:.3g}", int(count)) for low, up, count in ranges]
    return one, bars, middle, high, top
