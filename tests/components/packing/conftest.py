import pytest
import tensorflow as tf


def feature(value):
    if value is None or value == []:  # an empty list has no kind
        return tf.train.Feature()
    if isinstance(value, bytes | int | float):
        value = [value]
    if any(isinstance(v, bytes) for v in value):
        return tf.train.Feature(bytes_list=tf.train.BytesList(value=value))
    if any(isinstance(v, float) for v in value):
        return tf.train.Feature(float_list=tf.train.FloatList(value=value))
    return tf.train.Feature(int64_list=tf.train.Int64List(value=value))


def serialised(row):
    features = tf.train.Features(feature={name: feature(v) for name, v in row.items()})
    return tf.train.Example(features=features).SerializeToString(deterministic=True)


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
