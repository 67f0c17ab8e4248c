import numpy as np
import pytest

from penstock.components.trainer.utilisation.series import BoundedSeries, DurationCounter, Durations


def test_a_short_series_is_kept_as_it_is():
    series = BoundedSeries(2, max_points=4)
    series.add(np.array([[1.0, 10.0], [2.0, 20.0]]))
    series.add(np.array([[3.0, 30.0]]))
    assert series.columns() == ((1.0, 2.0, 3.0), (10.0, 20.0, 30.0))


def test_a_long_series_becomes_means_of_neighbours():
    series = BoundedSeries(1, max_points=4)
    for number in range(9):
        series.add(np.array([[float(number)]]))
    # 0..3, 4..7, and what there is of the next four.
    assert series.columns() == ((1.5, 5.5, 8.0),)


def test_many_rows_at_once_are_as_one_by_one():
    series = BoundedSeries(1, max_points=4)
    series.add(np.arange(9.0)[:, None])
    assert series.columns() == ((1.5, 5.5, 8.0),)


def test_a_week_takes_no_more_than_its_points():
    series = BoundedSeries(1)
    for _ in range(30):
        series.add(np.ones((100_000, 1)))
    (column,) = series.columns()
    assert 1024 <= len(column) <= 2048
    assert set(column) == {1.0}


def test_nothing_is_empty_columns():
    assert BoundedSeries(2).columns() == ((), ())


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


def test_share_of_time_above_a_duration():
    counted = durations(*[0.001] * 100, 0.9)
    assert counted.share_of_time_above(0.01) == pytest.approx(0.9, abs=0.02)
    assert counted.share_of_time_above(5.0) == 0.0


def test_only_bins_between_the_first_and_the_last_are_kept():
    counted = durations(0.001, 0.0015)
    assert len(counted.counts) == 5
    assert (counted.counts[0], counted.counts[-1]) == (1, 1)


def test_durations_outside_the_bins_fall_into_the_first_and_last():
    counted = durations(0.0, 1e9)
    assert (counted.counts[0], counted.counts[-1], len(counted.counts)) == (1, 1, 180)


def test_no_duration_has_no_quantile():
    nothing = DurationCounter().durations()
    assert nothing == Durations((), ())
    assert nothing.quantile(0.5) is None
    assert nothing.share_of_time_above(0.0) == 0.0
