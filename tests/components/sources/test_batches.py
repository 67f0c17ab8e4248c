import pyarrow as pa

from penstock.components.sources import batches
from penstock.components.sources.base import Batch, RejectedRow


def batch(first, rows, rejected=(), blank=0):
    table = pa.record_batch([pa.array(range(first, first + rows), pa.int64())], ["n"])
    return Batch(table, rejected, blank)


def test_small_batches_are_joined_up_to_the_most_rows(monkeypatch):
    monkeypatch.setattr(batches, "MAX_BATCH_ROWS", 5)
    bad = RejectedRow("a.db", 7, 0, "n", "not a number", b"x")
    given = [batch(0, 2), batch(2, 0, (bad,)), batch(2, 3, blank=1), batch(5, 4), batch(9, 9)]
    joined = list(batches.joined(iter(given)))
    assert [b.table.column(0).to_pylist() for b in joined] == [
        [0, 1, 2, 3, 4],
        [5, 6, 7, 8],
        list(range(9, 18)),
    ]
    assert [(list(b.rejected), b.blank) for b in joined] == [([bad], 1), ([], 0), ([], 0)]


def test_batches_without_a_good_row_keep_what_was_rejected():
    bad = RejectedRow("a.db", 1, 0, "n", "not a number", b"x")
    [joined] = batches.joined(iter([batch(0, 0, (bad,)), batch(0, 0, (bad,))]))
    assert joined.table.num_rows == 0
    assert joined.rows_read == 2
    assert not list(batches.joined(iter([])))


def test_large_rows_are_not_joined(monkeypatch):
    monkeypatch.setattr(batches, "MAX_BATCH_BYTES", 100)
    joined = batches.joined(iter([batch(0, 10), batch(10, 10), batch(20, 2)]))
    assert [b.table.num_rows for b in joined] == [10, 12]
