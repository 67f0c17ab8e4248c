import hashlib

import pytest
import tensorflow as tf

from penstock.components.tfrecord.manifest import (
    Manifest,
    ManifestColumn,
    RowAccount,
    Shard,
    write_manifest,
)


def example(row):
    feature = {
        "row": tf.train.Feature(int64_list=tf.train.Int64List(value=[row])),
        "x": tf.train.Feature(float_list=tf.train.FloatList(value=[row / 2])),
        "y": tf.train.Feature(int64_list=tf.train.Int64List(value=[row % 2])),
    }
    if row % 3:
        feature["name"] = tf.train.Feature(bytes_list=tf.train.BytesList(value=[b"n%d" % row]))
    return tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString()


class Data:
    """Shards whose rows are numbered from 0."""

    # None divides by the batch sizes of the tests, and one shard is empty.
    shard_rows = (37, 0, 53, 13)
    rows = 103
    spec = {  # noqa: RUF012
        "row": tf.io.FixedLenFeature([1], tf.int64),
        "x": tf.io.FixedLenFeature([1], tf.float32),
        "name": tf.io.FixedLenFeature([1], tf.string, [""]),
        "y": tf.io.FixedLenFeature([1], tf.int64),
    }

    @staticmethod
    def write_shards(directory, shard_rows=shard_rows, compression=""):
        """Write `Split-train/` into `directory`; gives the shards' paths."""
        (directory / "Split-train").mkdir(parents=True)
        suffix = ".gz" if compression else ""
        paths, row = [], 0
        for index, rows in enumerate(shard_rows):
            name = f"data_tfrecord-{index:05d}-of-{len(shard_rows):05d}{suffix}"
            path = directory / "Split-train" / name
            with tf.io.TFRecordWriter(str(path), compression) as writer:
                for number in range(row, row + rows):
                    writer.write(example(number))
            row += rows
            paths.append(path)
        return paths

    @classmethod
    def write_examples(cls, directory, shard_rows=shard_rows):
        """Write shards and their manifest into `directory`."""
        shards = [
            Shard(
                str(path.relative_to(directory)),
                rows,
                path.stat().st_size,
                hashlib.sha256(path.read_bytes()).hexdigest(),
            )
            for path, rows in zip(cls.write_shards(directory, shard_rows), shard_rows, strict=True)
        ]
        account = RowAccount(read=sum(shard_rows), written={"train": sum(shard_rows)})
        columns = [ManifestColumn("row", "INT")]
        write_manifest(directory, Manifest({"train": shards}, columns, "", "csv", "", 1, account))
        return directory


@pytest.fixture(scope="session")
def data():
    return Data


@pytest.fixture(scope="session")
def shards(tmp_path_factory):
    """The pattern of plain shards without a manifest, as TFX hands it over."""
    directory = tmp_path_factory.mktemp("plain")
    Data.write_shards(directory, tuple(rows for rows in Data.shard_rows if rows))
    return [str(directory / "Split-train" / "*")]


class Toy:
    """One weight and one bias that learn whether `x` is positive."""

    @staticmethod
    def build_model(learning_rate=0.1):
        import keras

        keras.utils.set_random_seed(0)
        x = keras.Input((1,), name="x")
        y = keras.layers.Dense(1, activation="sigmoid", name="dense")(x)
        model = keras.Model({"x": x}, y)
        model.compile(
            keras.optimizers.Adam(learning_rate),
            loss="binary_crossentropy",
            metrics=[keras.metrics.BinaryAccuracy(name="accuracy")],
        )
        return model

    @staticmethod
    def dataset(x=None):
        """32 rows in batches of 8, one pass."""
        x = tf.reshape(tf.linspace(-1.0, 1.0, 32), [-1, 1]) if x is None else x
        return tf.data.Dataset.from_tensor_slices(({"x": x}, tf.cast(x > 0, tf.int64))).batch(8)

    @staticmethod
    def slowed(dataset, work):
        """The same batches, each after `work`, which is called in Python."""

        def after(features, label):
            with tf.control_dependencies([tf.py_function(work, [], [])]):
                return tf.nest.map_structure(tf.identity, (features, label))

        return dataset.map(after)


@pytest.fixture(scope="session")
def toy():
    return Toy
