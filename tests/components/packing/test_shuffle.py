import itertools

import numpy as np
import pyarrow as pa
import pytest

from penstock.components.packing.shuffle import RowSorter, cut_rows, encode_rows, without_lists

ORDER = np.random.default_rng(0).permutation(1000)


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


def in_order(sorter, sizes):
    for number, batch in enumerate(batches()):
        sorter.add(ORDER[100 * number :][:100], without_lists(batch))
    return list(sorter.in_order(sizes))


def rows_of(found):
    return list(itertools.chain(*(batch.to_pylist() for batch in found)))


@pytest.mark.parametrize("memory_bytes", [100_000, 5_000, 1])
def test_every_row_comes_in_its_place_with_all_of_its_values(tmp_path, memory_bytes):
    sorter = RowSorter(tmp_path / "parts", 1000, memory_bytes=memory_bytes)
    found = in_order(sorter, [400, 7, 593])
    assert [batch.num_rows for batch in found] == [400, 7, 593]
    rows = rows_of(found)
    assert [ORDER[row["row"][0]] for row in rows] == list(range(1000))
    for row in rows:
        number = row["row"][0]
        assert row["text"] == (None if 300 <= number < 400 else [b"%d" % number])
        assert row.get("some") == ([number, -number] if number > 599 and number % 2 else None)


def test_parts_are_on_the_disk_until_they_are_read(tmp_path):
    sorter = RowSorter(tmp_path / "parts", 1000, memory_bytes=1)
    found = sorter.in_order([500, 500])
    for number, batch in enumerate(batches()):
        sorter.add(ORDER[100 * number :][:100], without_lists(batch))
    # The first 100 rows were more than fits, so there are ten times as many.
    assert sorted(path.name for path in (tmp_path / "parts").iterdir()) == [
        f"{part:05d}" for part in range(10)
    ]
    assert sum(batch.num_rows for batch in found) == 1000
    assert list((tmp_path / "parts").iterdir()) == []


def test_rows_are_taken_as_bytes_and_as_files_of_them(tmp_path):
    rows = pa.RecordBatch.from_arrays([pa.array([10, 11, 12, 13])], ["x"])
    parts = {
        part: encode_rows(places, some)
        for part, places, some in cut_rows(np.array([3, 1, 0, 2]), rows, np.array([2, 5, 2, 5]))
    }
    assert [*parts] == [2, 5]
    path = tmp_path / "rows"
    path.write_bytes(parts[5] + encode_rows(np.array([4]), rows.slice(0, 1)))
    sorter = RowSorter(tmp_path / "parts", 5, memory_bytes=1000)
    sorter.add_encoded(path)
    sorter.add_encoded(parts[2])
    assert rows_of(sorter.in_order([5])) == [{"x": [x]} for x in (12, 11, 13, 10, 10)]
