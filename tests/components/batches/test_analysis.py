"""Results of analysis in batches, compared with those of TFT: graphs, vocabularies, outputs."""

import os
import pickle
import random
import weakref
from functools import partial
from pathlib import Path

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pytest
import tensorflow as tf
import tensorflow_transform as tft
import tensorflow_transform.beam as tft_beam
from google.protobuf import text_format
from local_beam import local_pipeline
from row_files import example, write_shards
from tensorflow_metadata.proto.v0 import schema_pb2
from tfx_bsl.public import tfxio

from penstock.components.batches.analysis import analyze
from penstock.components.batches.fallback import NotInBatchesError
from penstock.components.batches.shards import shard_tasks
from penstock.components.packing.transformed import TransformedRows

FIXED = "presence { min_fraction: 1 } shape { dim { size: %d } }"
OPTIONAL = "value_count { min: 0 max: 1 }"
SCHEMA = text_format.Parse(
    "".join(
        f'feature {{ name: "{name}" type: {kind} {form} }}'
        for names, kind, form in [
            ("abc", "FLOAT", FIXED % 1),
            ("d", "FLOAT", OPTIONAL),
            ("v", "FLOAT", FIXED % 3),
            ("m", "INT", FIXED % 1),
            ("n", "INT", OPTIONAL),
            ("s", "BYTES", FIXED % 1),
            ("t", "BYTES", OPTIONAL),
            ("w", "BYTES", ""),
        ]
        for name in names
    ),
    schema_pb2.Schema(),
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    def rows():
        rng = np.random.default_rng(3)
        for i in range(300):
            lows = {"a": 10, "b": 20, "c": -3, "d": 100}
            row = {name: [float(rng.uniform(low, low + 5))] for name, low in lows.items()}
            row |= {"m": [int(rng.integers(5, 50))], "n": [int(rng.integers(-9, 0))]}
            row |= {name: [b"%s%d" % (name.encode(), rng.zipf(1.7) % 9)] for name in "st"}
            row["v"] = rng.normal(size=3).tolist()
            row["w"] = [b"w%d" % w for w in rng.zipf(1.6, rng.integers(0, 6)) % 200] or None
            for name, every in (("d", 4), ("n", 3), ("t", 5)):
                if i % every == 0:
                    del row[name]
            yield example(**row)

    return write_shards(tmp_path_factory.mktemp("raw") / "rows", rows())


def by_beam(preprocessing_fn, folder, output):
    files = sorted(map(str, (folder / "Split-train").iterdir()))
    source = tfxio.TFExampleRecord(files, schema=SCHEMA)
    with local_pipeline() as pipeline, tft_beam.Context(temp_dir=f"{output}/tmp"):
        analyzed = (
            pipeline | source.BeamSource(),
            source.TensorAdapterConfig(),
        ) | tft_beam.AnalyzeDataset(preprocessing_fn)
        analyzed | tft_beam.WriteTransformFn(output)
    tf.io.gfile.rmtree(f"{output}/tmp")


def in_batches(preprocessing_fn, folder, output):
    tasks = shard_tasks(str(folder), "train")
    assert len(tasks) == 3

    def run(work):
        # Work and results are pickled, as for workers on other machines.
        return [
            pickle.loads(pickle.dumps(pickle.loads(pickle.dumps(work))(task))) for task in tasks
        ]

    analyze(preprocessing_fn, SCHEMA, output, run)


def outputs(graph, folder):
    spec = tft.tf_metadata.schema_utils.schema_as_feature_spec(SCHEMA).feature_spec
    files = sorted(map(str, (folder / "Split-train").iterdir()))
    records = next(iter(tf.data.TFRecordDataset(files, "GZIP").batch(10_000)))
    made = tft.TFTransformOutput(graph).transform_features_layer()
    return made(tf.io.parse_example(records, spec))


def files_of(graph, folder):
    """Contents of the files in a folder of a graph, by name."""
    return {path.name: path.read_bytes() for path in Path(graph, folder).glob("*")}


def assert_equal_values(ours, theirs, name):
    if isinstance(theirs, tf.SparseTensor):
        np.testing.assert_array_equal(ours.indices, theirs.indices, name)
        ours, theirs = ours.values, theirs.values
    if theirs.dtype.is_floating:
        # Floats come from float32 sums, which TFT computes over batches of another size, so they
        # may differ slightly.
        np.testing.assert_allclose(ours, theirs, rtol=2e-5, atol=2e-5, err_msg=name)
    else:
        np.testing.assert_array_equal(ours, theirs, name)


def plus(x, value):
    """Adds a number to each value of a column, so that an analyzer's result is in the rows."""
    if isinstance(x, tf.SparseTensor):
        return tf.SparseTensor(x.indices, plus(x.values, value), x.dense_shape)
    return tf.cast(x, tf.float32) + tf.cast(value, tf.float32)


def twice_scaled(x):
    """A function whose analysis needs two phases."""
    return tft.scale_to_z_score(tft.scale_to_0_1(x))


def by_own_table(x):
    table = tf.lookup.KeyValueTensorInitializer([b"s1", b"s2"], tf.constant([1, 2], tf.int64))
    return tf.lookup.StaticHashTable(table, -1).lookup(x)


def with_stored_vocabulary(x):
    tft.vocabulary(x, store_frequency=True, vocab_filename="stored")
    return x


def tfidf(x):
    return tft.tfidf(tft.compute_and_apply_vocabulary(x, top_k=5, default_value=5), 6)[1]


NUMBERS, DENSE, TEXTS = "abcdmn", "abcmv", "stw"
# Analyzers that BatchTransform supports, and the columns on which each one is tested.
ANALYZERS = {
    "scale_to_0_1": (NUMBERS, tft.scale_to_0_1),
    "scale_by_min_max": (NUMBERS, lambda x: tft.scale_by_min_max(x, -1, 3)),
    "scale_to_z_score": (NUMBERS, tft.scale_to_z_score),
    "scale_to_gaussian": (NUMBERS, tft.scale_to_gaussian),
    "of two phases": (NUMBERS, twice_scaled),
    "min": (NUMBERS, lambda x: plus(x, tft.min(x))),
    "max": (NUMBERS, lambda x: plus(x, tft.max(x))),
    "sum": (NUMBERS, lambda x: plus(x, tft.sum(x))),
    "mean": (NUMBERS, lambda x: plus(x, tft.mean(x))),
    "var": (NUMBERS, lambda x: plus(x, tft.var(x))),
    "size": (NUMBERS, lambda x: plus(x, tft.size(x))),
    "bucketize": (NUMBERS, lambda x: tft.bucketize(x, 4)),
    "scale_to_0_1 by element": (DENSE, lambda x: tft.scale_to_0_1(x, elementwise=True)),
    "scale_by_min_max by element": (
        DENSE,
        lambda x: tft.scale_by_min_max(x, -1, 3, elementwise=True),
    ),
    "scale_to_z_score by element": (DENSE, lambda x: tft.scale_to_z_score(x, elementwise=True)),
    "bucketize by element": (DENSE, lambda x: tft.bucketize(x, 4, elementwise=True)),
    "min by element": (DENSE, lambda x: plus(x, tft.min(x, reduce_instance_dims=False))),
    "var by element": (DENSE, lambda x: plus(x, tft.var(x, reduce_instance_dims=False))),
    "quantiles": (DENSE, lambda x: plus(x, tft.quantiles(x, 4, 0.01)[0, 1])),
    "quantiles by element": (
        "v",
        lambda x: plus(x, tft.quantiles(x, 4, 0.01, reduce_instance_dims=False)[:, 0]),
    ),
    "covariance": (
        DENSE,
        lambda x: plus(x, tft.covariance(tf.cast(x, tf.float32), tf.float32)[0, 0]),
    ),
    "pca": ("v", lambda x: tf.matmul(x, tft.pca(x, 2, tf.float32))),
    "compute_and_apply_vocabulary": (TEXTS, lambda x: tft.compute_and_apply_vocabulary(x)),
    "top of a vocabulary": (
        TEXTS + "mn",
        lambda x: tft.compute_and_apply_vocabulary(x, top_k=3, num_oov_buckets=2),
    ),
    "frequent of a vocabulary": (
        TEXTS,
        lambda x: tft.compute_and_apply_vocabulary(x, frequency_threshold=30),
    ),
    "stored vocabulary": ("w", with_stored_vocabulary),
    "tfidf": ("w", tfidf),
}
# Functions without an analyzer. `max of a row` takes the maximum within each row, so it calls
# `reduce_max`, whose fault docs/upstream.md describes.
PLAIN = {
    "max of a row": (DENSE, lambda x: tf.reduce_max(tf.sqrt(tf.abs(tf.cast(x, tf.float32))), 1)),
    "hash": ("s", lambda x: tft.hash_strings(x, 10)),
    "own table": ("s", by_own_table),
    "list": ("w", tf.sparse.reorder),
}
WITHOUT_ANALYZERS = [(name, column) for name, (columns, _) in PLAIN.items() for column in columns]
USES = WITHOUT_ANALYZERS + [
    (name, column) for name, (columns, _) in ANALYZERS.items() for column in columns
]


def used(inputs, uses):
    functions = {name: function for name, (_, function) in (ANALYZERS | PLAIN).items()}
    return {f"{column} {name}": functions[name](inputs[column]) for name, column in uses}


def assert_equals_tft(uses, folder, path):
    """Compares our graph with TFT's: files, outputs, and rows as Pack and Transform write them."""
    preprocessing_fn = partial(used, uses=uses)
    ours, theirs = str(path / "ours"), str(path / "theirs")
    in_batches(preprocessing_fn, folder, ours)
    by_beam(preprocessing_fn, folder, theirs)
    assert sorted(os.listdir(ours)) == ["metadata", *sorted(os.listdir(theirs))]
    for name in ("transform_fn/assets", "transformed_metadata"):
        assert files_of(ours, name) == files_of(theirs, name)
    assert "schema.pbtxt" in files_of(ours, "transformed_metadata")
    mine, other = (outputs(graph, folder) for graph in (ours, theirs))
    assert mine.keys() == other.keys()
    written = applied(ours, folder)
    for name, values in other.items():
        assert_equal_values(mine[name], values, name)
        flat = values.values if isinstance(values, tf.SparseTensor) else tf.reshape(values, [-1])
        assert_equal_values(tf.constant(written[name], flat.dtype), flat, name)


def applied(graph, folder):
    """Returns the values of all rows by feature, as Pack and Transform write them."""
    rows = TransformedRows(graph)
    batches = [b for task in shard_tasks(str(folder), "train") for b in rows(task.file, task.shard)]
    names = batches[0].schema.names
    return {
        name: np.concatenate(
            [batch.column(name).flatten().to_numpy(zero_copy_only=False) for batch in batches]
        )
        for name in names
    }


def test_two_columns_that_are_scaled_alone_have_their_own_minimum(folder, tmp_path):
    alone = partial(used, uses=[("scale_to_0_1", name) for name in "ab"])
    in_batches(alone, folder, str(tmp_path / "graph"))
    found = outputs(str(tmp_path / "graph"), folder)
    scaled = [(float(x.numpy().min()), float(x.numpy().max())) for x in found.values()]
    assert scaled == [(0.0, 1.0)] * 2


# Nine graphs with fifteen of the shuffled uses each, and one graph without an analyzer.
MIXED = random.Random(1).sample(USES, len(USES))
GRAPHS = [*(MIXED[i::9] for i in range(9)), WITHOUT_ANALYZERS]


@pytest.mark.slow
@pytest.mark.parametrize("uses", GRAPHS, ids=[*map(str, range(9)), "plain"])
def test_each_analyzer_of_each_column_equals_tft_beside_others(uses, folder, tmp_path):
    assert_equals_tft(uses, folder, tmp_path)


def test_float32_z_scores_by_element_lose_no_digits_in_long_shards(tmp_path):
    values = (1000 + np.random.default_rng(3).normal(size=(16_384, 3))).astype(np.float32)
    one = {"a": [0.0], "b": [0.0], "c": [0.0], "m": [0], "s": [b""], "w": None}
    raw = [example(**one, v=v) for v in values.tolist()]
    folder, graph = write_shards(tmp_path / "raw", raw, shards=1), str(tmp_path / "graph")
    tasks = shard_tasks(str(folder), "train")

    def scaled(i):
        return {"e": tft.scale_to_z_score(i["v"], elementwise=True)}

    analyze(scaled, SCHEMA, graph, lambda work: map(work, tasks))
    exact = values.astype(np.float64)
    exact = (exact - exact.mean(axis=0)) / exact.std(axis=0)
    assert np.abs(outputs(graph, folder)["e"] - exact[:10_000]).max() < 1e-4


def test_accumulators_of_many_shards_are_merged_in_groups(folder, tmp_path):
    [task, *_] = shard_tasks(str(folder), "train")
    tables, held = [], []

    def run(work):
        for _ in range(40):
            found = work(task)
            tables.extend(weakref.ref(one) for [one] in found if isinstance(one, pa.Table))
            held.append(sum(table() is not None for table in tables))
            yield found

    analyze(lambda i: {"s": tft.compute_and_apply_vocabulary(i["s"])}, SCHEMA, str(tmp_path), run)
    assert len(held) == 40
    assert max(held) <= 17


def by_coverage(i):
    key = lambda token: token[:4]  # noqa: E731
    return {"s": tft.compute_and_apply_vocabulary(i["s"], coverage_top_k=1, top_k=2, key_fn=key)}


def by_ptransform(i):
    class Count(beam.PTransform):
        def expand(self, pcoll):
            return pcoll | beam.combiners.Count.Globally()

    [n] = tft.experimental.ptransform_analyzer([i["a"]], Count(), [tf.int64], [[]])
    return {"m": i["m"] + n}


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (
            lambda i: {"s": tft.compute_and_apply_vocabulary(i["s"], labels=i["m"])},
            "by weights or mutual information",
        ),
        (
            lambda i: {"s": tft.compute_and_apply_vocabulary(i["s"], fingerprint_shuffle=True)},
            "shuffled or no text file",
        ),
        (
            lambda i: {"a": tft.scale_to_z_score_per_key(i["a"][:, 0], i["s"][:, 0])},
            "operation CacheableCombinePerKeyAccumulate",
        ),
        (by_coverage, "by keys"),
        (by_ptransform, "operation PTransform"),
    ],
)
def test_what_only_tft_supports_is_named_before_a_row_is_read(function, reason, tmp_path):
    def run(work):
        raise AssertionError("a row was read")

    with pytest.raises(NotInBatchesError, match=reason):
        analyze(function, SCHEMA, str(tmp_path / "out"), run)
    assert os.listdir(tmp_path / "out") == []
