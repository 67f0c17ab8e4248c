import pytest
import tensorflow as tf
from row_files import example


def serialised(row):
    lists = {name: v if isinstance(v, list) else [v] for name, v in row.items()}
    return example(**{name: None if v in ([], [None]) else v for name, v in lists.items()})


@pytest.fixture
def write_rows(tmp_path):
    """Writes rows as `Split-NAME/` of two shards, as TFX does: GZIP, no manifest."""

    def write(rows, split="train", folder="rows"):
        directory = tmp_path / folder / f"Split-{split}"
        directory.mkdir(parents=True)
        for shard in range(2):
            path = directory / f"data-{shard:05d}-of-00002.gz"
            with tf.io.TFRecordWriter(str(path), "GZIP") as out:
                for row in rows[shard::2]:
                    out.write(row if isinstance(row, bytes) else serialised(row))
        return tmp_path / folder

    return write


def mixed_row(i):
    """One column of every storage."""
    return {
        "id": i,
        "pair": [i / 2, -i / 4],
        "name": b"name %d" % (i % 7),
        "words": [b"a%d" % i, b"b"],
        "kind": b"k%d" % (i % 3),
        "numbers": list(range(i % 4)),
        "weights": [0.5] * (i % 3),
        "tags": [b"t"] * (i % 3),
    }


@pytest.fixture
def mixed():
    return mixed_row
