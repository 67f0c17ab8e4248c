import numpy as np
import pyarrow as pa
import pytest

from penstock.components.packing.shuffle import (
    Permutation,
    cut_rows,
    decode_rows,
    encode_rows,
    joined,
    without_lists,
)


def lists(values, kind):
    return pa.array([[value] for value in values], pa.large_list(kind))


def batches():
    """1,000 rows in ten batches; `text` is null in one, and only the last four have `some`."""
    for start in range(0, 1000, 100):
        rows = range(start, start + 100)
        columns = {"row": lists(rows, pa.int64()), "text": lists(map(str, rows), pa.large_binary())}
        if start == 300:
            columns["text"] = pa.nulls(100)
        if start > 500:
            pairs = [[row, -row] if row % 2 else None for row in rows]
            columns["some"] = pa.array(pairs, pa.large_list(pa.int64()))
        yield pa.RecordBatch.from_arrays([*columns.values()], [*columns])


def test_joined_rows_have_all_of_their_values_whatever_the_form_of_their_columns():
    moved = list(map(without_lists, batches()))
    assert moved[0].schema.types == [pa.int64(), pa.large_binary()]
    found = joined(moved)
    assert found.schema.names == ["row", "some", "text"]
    for number, row in enumerate(found.to_pylist()):
        assert row["row"] == number
        assert row["text"] == (None if 300 <= number < 400 else [b"%d" % number])
        assert row["some"] == ([number, -number] if number > 599 and number % 2 else None)


def test_encoded_rows_of_a_part_can_be_concatenated():
    rows = pa.RecordBatch.from_arrays([pa.array([10, 11, 12, 13])], ["x"])
    parts = {
        part: encode_rows(places, some)
        for part, places, some in cut_rows(np.array([3, 1, 0, 2]), rows, np.array([2, 5, 2, 5]))
    }
    assert [*parts] == [2, 5]
    found = list(decode_rows(parts[5] + encode_rows(np.array([4]), rows.slice(0, 1)) + parts[2]))
    assert [places.tolist() for places, _ in found] == [[1, 2], [4], [3, 0]]
    assert [some.to_pydict()["x"] for _, some in found] == [[11, 13], [10], [10, 12]]


@pytest.mark.parametrize("rows", [0, 1, 2, 3, 7, 10, 100, 101, 4096, 99_999])
def test_every_row_has_a_place_of_its_own(rows):
    places = Permutation(rows, seed=3, name="train").places(0, rows)
    assert np.array_equal(np.sort(places), np.arange(rows))


def test_a_part_of_the_rows_is_reckoned_alone():
    permutation = Permutation(100_003, seed=1, name="train")
    whole = permutation.places(0, 100_003)
    assert np.array_equal(permutation.places(70_000, 70_010), whole[70_000:70_010])
    assert whole[:5].tolist() == [51548, 653, 84251, 56125, 61701]


def test_far_from_where_they_were_and_from_their_neighbours():
    rows = 200_000
    places = Permutation(rows, seed=0, name="train").places(0, rows)
    # Neighbours are on average 1/3 of the rows apart, and the correlation of place and row number
    # is below 3 / sqrt(rows), as with independent draws.
    assert abs(np.abs(np.diff(places)).mean() / rows - 1 / 3) < 0.003
    assert abs(np.corrcoef(places, np.arange(rows))[0, 1]) < 0.0067
    # Each hundredth of the rows is spread about evenly over all hundredths of the places.
    counts, _, _ = np.histogram2d(places, np.arange(rows), bins=100)
    chi_square = ((counts - 20) ** 2 / 20).sum()
    assert abs(chi_square - 99 * 99) < 4 * np.sqrt(2 * 99 * 99)
