import hashlib
import itertools

import pytest
import tensorflow as tf

from penstock.components.tfrecord.manifest import Manifest, ManifestColumn, Shard, write_manifest
from tests import row_files


def example(row):
    name = {"name": [b"n%d" % row]} if row % 3 else {}
    return row_files.example(row=[row], x=[row / 2], y=[row % 2], **name)


class Data:
    """Shards whose rows are numbered from 0."""

    # One shard is empty; the numbers of rows of the others are primes.
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
        """Writes `Split-train/` into `directory`; returns the shards' paths."""
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
        """Writes shards and their manifest into `directory`."""
        shards = []
        for path, rows in zip(cls.write_shards(directory, shard_rows), shard_rows, strict=True):
            digest = hashlib.sha256(path.read_bytes()).hexdigest()
            name = str(path.relative_to(directory))
            shards.append(Shard(name, rows, path.stat().st_size, digest))
        kinds = {"row": "INT", "x": "FLOAT", "y": "INT", "name": "BYTES"}
        columns = [ManifestColumn(name, kind) for name, kind in kinds.items()]
        of = {"source_kind": "csv", "source_fingerprint": "", "source_files": 1}
        manifest = Manifest.of({"train": shards}, columns, read=sum(shard_rows), **of)
        write_manifest(directory, manifest)
        return directory


@pytest.fixture(scope="session")
def data():
    return Data


@pytest.fixture(scope="session")
def shards(tmp_path_factory):
    """The pattern of uncompressed shards without a manifest, as a list, as TFX passes it."""
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
            jit_compile=False,  # compiling would take longer than these trainings
        )
        return model

    @staticmethod
    def dataset(x=None):
        """The rows of `x` (default: 32 rows) in batches of 8, one pass."""
        x = tf.reshape(tf.linspace(-1.0, 1.0, 32), [-1, 1]) if x is None else x
        return tf.data.Dataset.from_tensor_slices(({"x": x}, tf.cast(x > 0, tf.int64))).batch(8)

    @staticmethod
    def slowed(dataset, work):
        """The batches of `dataset`; before each of them, Python calls `work`."""

        def after(features, label):
            with tf.control_dependencies([tf.py_function(work, [], [])]):
                return tf.nest.map_structure(tf.identity, (features, label))

        return dataset.map(after)


@pytest.fixture(scope="session")
def toy():
    return Toy


class Inputs:
    """Makes training inputs of each kind; all have rows 0..102, whose numbers are the labels."""

    def __init__(self, root):
        self.root = root

    @classmethod
    def write(cls, root):
        from penstock.components.packing.options import PackOptions
        from penstock.components.packing.pack import pack

        Data.write_examples(root / "rows")
        pack(str(root / "rows"), root / "packed", PackOptions(block_rows=8))
        (root / "images/Split-train").mkdir(parents=True)
        for shard in range(3):
            with tf.io.TFRecordWriter(str(root / f"images/Split-train/{shard}")) as out:
                for row in range(shard, Data.rows, 3):
                    out.write(cls._image(row))
        return cls(root)

    def __call__(self, kind, *, batch_size=10, start=None, input_context=None, **options):
        place = {"start": start, "input_context": input_context}
        return self.of(kind, batch_size, **options).train(**place)

    def of(self, kind, batch_size, **options):
        from penstock.components.trainer.input.input import Input
        from penstock.components.trainer.input.options import ImageInputOptions, InputOptions

        if kind == "images":
            chosen = ImageInputOptions(batch_size=batch_size, height=2, width=2, **options)
            return Input.images([str(self.root / "images/Split-train/*")], options=chosen)
        chosen, source = InputOptions(batch_size=batch_size, **options), str(self.root / kind)
        if kind == "packed":
            return Input.packed(source, options=chosen, label="row", columns=["x"])
        spec = {name: Data.spec[name] for name in ("row", "x")}
        return Input.rows(source, spec, options=chosen, label="row")

    @staticmethod
    def _image(row):
        png = tf.io.encode_png(tf.fill([2, 2, 3], tf.cast(row, tf.uint8))).numpy()
        return row_files.example(**{"image/encoded": [png], "image/class/label": [row]})


def rows_of(dataset, batches=None):
    """The row numbers in each batch: the values of its feature `row`, or of its label."""
    found = []
    for batch in itertools.islice(dataset, batches):
        features, label = batch if isinstance(batch, tuple) else (batch, None)
        found.append(features.get("row", label).numpy().ravel().tolist())
    return found


def flat(batches):
    return [row for batch in batches for row in batch]


@pytest.fixture(scope="session")
def make_input(tmp_path_factory):
    return Inputs.write(tmp_path_factory.mktemp("inputs"))


def transform_output(preprocessing_fn, spec, records, folder):
    """Makes the TransformGraph of serialised rows with this spec, below `folder`."""
    import tensorflow_transform as tft
    from tensorflow_transform.tf_metadata import schema_utils

    from penstock.components.batches.analysis import analyze
    from penstock.components.batches.shards import shard_tasks

    tasks = shard_tasks(str(row_files.write_shards(folder / "rows", records)), "train")
    schema, graph = schema_utils.schema_from_feature_spec(spec), str(folder / "graph")
    analyze(preprocessing_fn, schema, graph, lambda work: map(work, tasks))
    return tft.TFTransformOutput(graph)


def counting_model():
    """A model of one feature; its weight `seen` counts how often each row occurs in training.

    The counts are sums over all workers.
    """
    import keras

    class Counting(keras.Model):
        def __init__(self):
            super().__init__()
            self.dense = keras.layers.Dense(1)
            self.seen = self.add_weight(
                name="seen",
                shape=(Data.rows,),
                initializer="zeros",
                trainable=False,
                aggregation="sum",
            )

        def call(self, features):
            [feature] = features.values()
            flat = tf.reshape(tf.cast(feature, tf.float32), [tf.shape(feature)[0], -1])
            return self.dense(tf.reduce_mean(flat, axis=1, keepdims=True) / 100)

        def train_step(self, data):
            rows = tf.reshape(data[1], [-1])
            self.seen.value.assign_add(tf.reduce_sum(tf.one_hot(rows, Data.rows), axis=0))
            return super().train_step(data)

    keras.utils.set_random_seed(0)
    model = Counting()
    model.compile(keras.optimizers.Adam(0.1), "mse", metrics=["mae"], jit_compile=False)
    return model
