import numpy as np
import pytest

from penstock.components.trainer.utilisation.durations import DurationCounter, Durations


def durations(*seconds):
    counter = DurationCounter()
    counter.add(np.array(seconds))
    return counter.durations()


def test_quantiles_are_right_to_a_bin():
    counted = durations(*[0.001] * 90, *[0.5] * 10)
    assert counted.count == 100
    assert counted.quantile(0.5) == pytest.approx(0.001, rel=0.13)
    assert counted.quantile(0.9) == pytest.approx(0.001, rel=0.13)
    assert counted.quantile(0.91) == pytest.approx(0.5, rel=0.13)


def test_the_share_of_time_in_long_ones():
    counted = durations(*[0.001] * 100, 0.9)
    assert counted.share_of_time_above(0.01) == pytest.approx(0.9, abs=0.02)
    assert counted.share_of_time_above(5.0) == 0.0


def test_only_bins_between_the_first_and_the_last_are_kept():
    counted = durations(0.001, 0.0015)
    assert len(counted.counts) == 5
    assert (counted.counts[0], counted.counts[-1]) == (1, 1)


def test_what_is_outside_falls_into_the_ends():
    counted = durations(0.0, 1e9)
    assert (counted.counts[0], counted.counts[-1], len(counted.counts)) == (1, 1, 180)


def test_nothing_has_no_quantile():
    nothing = DurationCounter().durations()
    assert nothing == Durations((), ())
    assert nothing.quantile(0.5) is None
    assert nothing.share_of_time_above(0.0) == 0.0
