import numpy as np

from penstock.components.trainer.utilisation.series import BoundedSeries


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
