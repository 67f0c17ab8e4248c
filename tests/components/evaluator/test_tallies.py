import numpy as np

from penstock.components.evaluator import tallies
from penstock.components.evaluator.tallies import KeyedSums


def test_keyed_sums_of_many_batches_equal_plain_sums(monkeypatch):
    monkeypatch.setattr(tallies, "_PENDING", 3)
    of = KeyedSums()
    assert of.between(0, 9)[0].tolist() == []
    for keys in ([5, 2, 5], [2], [7, 5], [1_000_000_000]):
        of.add(np.array(keys), np.array([np.ones(len(keys)), keys]))
    keys, columns = of.between(2, 7)
    assert keys.tolist() == [2, 5]
    assert columns.tolist() == [[2, 3], [4, 15]]
    assert of.between(8, 9)[0].tolist() == []
    assert of.between(1_000_000_000, 1_000_000_001)[1].tolist() == [[1], [1_000_000_000]]
