import pytest
from row_files import example, write_shards


def serialised(row):
    lists = {name: v if isinstance(v, list) else [v] for name, v in row.items()}
    return example(**{name: None if v in ([], [None]) else v for name, v in lists.items()})


@pytest.fixture
def write_rows(tmp_path):
    """A function that writes rows to two shards, as TFX does: GZIP, without a manifest."""

    def write(rows, split="train", folder="rows"):
        records = [row if isinstance(row, bytes) else serialised(row) for row in rows]
        return write_shards(tmp_path / folder, records, shards=2, split=split)

    return write


@pytest.fixture
def mixed():
    """A function that makes row `i`, with at least one column for each form of storage."""
    return lambda i: {
        "id": i,
        "pair": [i / 2, -i / 4],
        "name": b"name %d" % (i % 7),
        "words": [b"a%d" % i, b"b"],
        "kind": b"k%d" % (i % 3),
        "numbers": list(range(i % 4)),
        "weights": [0.5] * (i % 3),
        "tags": [b"t"] * (i % 3),
    }
