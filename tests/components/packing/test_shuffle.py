import itertools

import pyarrow as pa
import pytest

from penstock.components.packing.shuffle import RowShuffler


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


def shuffled(folder, memory_bytes, sizes, seed=0):
    shuffler = RowShuffler(
        folder, "train", seed=seed, expected_bytes=20_000, memory_bytes=memory_bytes
    )
    for batch in batches():
        shuffler.add(batch)
    return list(shuffler.shuffled(sizes))


def rows_of(found):
    return list(itertools.chain(*(batch.to_pylist() for batch in found)))


@pytest.mark.parametrize("memory_bytes", [20_000, 5_000])
def test_every_row_comes_once_with_all_of_its_values(tmp_path, memory_bytes):
    found = shuffled(tmp_path / "spill", memory_bytes, [400, 7, 593])
    assert [batch.num_rows for batch in found] == [400, 7, 593]
    rows = rows_of(found)
    assert sorted(row["row"][0] for row in rows) == list(range(1000))
    for row in rows:
        number = row["row"][0]
        assert row["text"] == (None if 300 <= number < 400 else [b"%d" % number])
        assert row.get("some") == ([number, -number] if number > 599 and number % 2 else None)


def test_the_order_is_the_seeds_whatever_memory_there_is(tmp_path):
    in_memory = rows_of(shuffled(tmp_path, 20_000, [1000]))
    assert rows_of(shuffled(tmp_path, 5_000, [10] * 100)) == in_memory
    assert rows_of(shuffled(tmp_path, 20_000, [1000], seed=1)) != in_memory


def test_buckets_are_on_the_disk_until_they_are_read(tmp_path):
    shuffler = RowShuffler(tmp_path, "train", seed=0, expected_bytes=4, memory_bytes=1)
    for batch in batches():
        shuffler.add(batch)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "train-000", "train-001", "train-002", "train-003"
    ]  # fmt: skip
    assert sum(batch.num_rows for batch in shuffler.shuffled([500, 500])) == 1000
    assert list(tmp_path.iterdir()) == []
