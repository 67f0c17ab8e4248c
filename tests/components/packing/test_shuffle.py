import numpy as np
import pyarrow as pa

from penstock.components.packing.shuffle import (
    cut_rows,
    decode_rows,
    encode_rows,
    joined,
    without_lists,
)


def lists(values, kind):
    return pa.array([[value] for value in values], pa.large_list(kind))


def batches():
    """1,000 rows in batches of 100, of whose columns some come late, are empty or of two values."""
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
