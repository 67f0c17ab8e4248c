import numpy as np
import pytest

from penstock.components.packing.permutation import Permutation


@pytest.mark.parametrize("rows", [0, 1, 2, 3, 7, 10, 100, 101, 4096, 99_999])
def test_every_row_has_a_place_of_its_own(rows):
    places = Permutation(rows, seed=3, name="train").places(0, rows)
    assert np.array_equal(np.sort(places), np.arange(rows))


def test_a_part_of_the_rows_is_reckoned_alone():
    permutation = Permutation(100_003, seed=1, name="train")
    whole = permutation.places(0, 100_003)
    assert np.array_equal(permutation.places(70_000, 70_010), whole[70_000:70_010])
    assert whole[:5].tolist() == [51548, 653, 84251, 56125, 61701]


def test_seed_and_split_decide():
    def first(seed, name):
        return Permutation(1000, seed=seed, name=name).places(0, 1000).tolist()

    assert first(1, "train") == first(1, "train")
    assert first(1, "train") != first(2, "train")
    assert first(1, "train") != first(1, "eval")


def test_far_from_where_they_were_and_from_their_neighbours():
    rows = 200_000
    places = Permutation(rows, seed=0, name="train").places(0, rows)
    # As of independent draws: a third on average, no correlation beyond 3 / sqrt(rows).
    assert abs(np.abs(np.diff(places)).mean() / rows - 1 / 3) < 0.003
    assert abs(np.corrcoef(places, np.arange(rows))[0, 1]) < 0.0067
    # Of each hundredth of the rows about as many come to each hundredth of the places.
    counts, _, _ = np.histogram2d(places, np.arange(rows), bins=100)
    chi_square = ((counts - 20) ** 2 / 20).sum()
    assert abs(chi_square - 99 * 99) < 4 * np.sqrt(2 * 99 * 99)


def test_of_few_rows_all_orders_come():
    found = [tuple(Permutation(4, seed=s, name="train").places(0, 4)) for s in range(2000)]
    counts = np.unique(found, axis=0, return_counts=True)[1]
    assert len(counts) == 24
    assert counts.min() > 40
