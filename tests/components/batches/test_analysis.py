"""Analysis in batches against TFT's own pipeline: graphs, vocabularies and their outputs."""

import os
import pickle
import weakref
from functools import partial
from pathlib import Path

import apache_beam as beam
import hypothesis
import hypothesis.strategies as st
import numpy as np
import pyarrow as pa
import pytest
import tensorflow as tf
import tensorflow_transform as tft
import tensorflow_transform.beam as tft_beam
from drawn import drawn, few_or_many
from google.protobuf import text_format
from local_beam import local_pipeline
from row_files import example, write_shards
from tensorflow_metadata.proto.v0 import schema_pb2
from tfx_bsl.public import tfxio

from penstock.components.batches.analysis import analyze
from penstock.components.batches.fallback import NotInBatchesError
from penstock.components.batches.shards import shard_tasks
from penstock.components.packing.transformed import TransformedRows
from penstock.pipelines.blocks.preprocessing import (
    category_ids,
    scaled_numbers,
    word_counts,
)

FIXED = "presence { min_fraction: 1 } shape { dim { size: %d } }"
SCHEMA = text_format.Parse(
    f"""
feature {{ name: "x" type: FLOAT {FIXED % 1} }}
feature {{ name: "y" type: FLOAT value_count {{ min: 0 max: 1 }} }}
feature {{ name: "k" type: BYTES {FIXED % 1} }}
feature {{ name: "n" type: INT {FIXED % 1} }}
feature {{ name: "v" type: FLOAT {FIXED % 3} }}
feature {{ name: "words" type: BYTES }}
feature {{ name: "label" type: INT {FIXED % 1} }}
""",
    schema_pb2.Schema(),
)


def rows(count=1500):
    rng = np.random.default_rng(5)
    for i in range(count):
        row = {
            "x": [float(rng.normal(3, 5))],
            "k": [b"key%d" % rng.integers(0, 7)],
            "n": [int(rng.zipf(1.7)) % 300],
            "v": rng.normal(size=3).tolist(),
            "words": [b"w%d" % w for w in rng.zipf(1.6, int(rng.integers(0, 6))) % 200] or None,
            "label": [i % 2],
        }
        if i % 3:
            row["y"] = [float(rng.exponential())]
        yield example(**row)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_shards(tmp_path_factory.mktemp("raw") / "rows", rows())


def vocabulary(x, name, **options):
    return tft.compute_and_apply_vocabulary(x, vocab_filename=name, **options)


def quantiles(i):
    of_three = tft.quantiles(i["v"], 4, 0.01, reduce_instance_dims=False)
    return {
        "q": of_three[:1, 0] + i["x"][:, 0],
        "p": tf.matmul(i["v"], tft.pca(i["v"], 2, tf.float32)),
    }


def vocabularies(i):
    tft.vocabulary(i["words"], store_frequency=True, vocab_filename="stored")
    return {
        "k": vocabulary(i["k"], "all"),
        "w": tft.compute_and_apply_vocabulary(i["words"], top_k=50, num_oov_buckets=3),
        "f": vocabulary(i["words"], "often", frequency_threshold=9),
        "n": vocabulary(i["n"], "top", top_k=20),
        "size": i["n"] + tft.size(i["n"]),
    }


def two_phases(i):
    words = tft.compute_and_apply_vocabulary(i["words"], top_k=30, default_value=30)
    table = tf.lookup.KeyValueTensorInitializer([b"key1", b"key2"], tf.constant([1, 2], tf.int64))
    return {
        "t": tft.scale_to_z_score(i["x"] - tft.mean(i["x"])),
        "tf": tft.tfidf(words, 31)[1],
        "own": tf.lookup.StaticHashTable(table, -1).lookup(i["k"]),
    }


def tables(i):
    """As the packages of `penstock init`."""
    return {
        "numbers": scaled_numbers(i, ["x", "y", "n"]),
        "categories": category_ids(i, {"k": 5, "n": 9}),
        "words": word_counts(i, {"k": 8}),
    }


def no_analyzer(i):
    return {"x": i["x"] * 2, "h": tft.hash_strings(i["k"], 10), "ragged": i["words"]}


def by_beam(preprocessing_fn, folder, output, schema=SCHEMA):
    files = sorted(map(str, (folder / "Split-train").iterdir()))
    source = tfxio.TFExampleRecord(files, schema=schema)
    with local_pipeline() as pipeline, tft_beam.Context(temp_dir=f"{output}/tmp"):
        analyzed = (
            pipeline | source.BeamSource(),
            source.TensorAdapterConfig(),
        ) | tft_beam.AnalyzeDataset(preprocessing_fn)
        analyzed | tft_beam.WriteTransformFn(output)
    tf.io.gfile.rmtree(f"{output}/tmp")


def in_batches(preprocessing_fn, folder, output, schema=SCHEMA):
    tasks = shard_tasks(str(folder), "train")
    assert len(tasks) == 3

    def run(work):
        # As workers elsewhere have it.
        return [
            pickle.loads(pickle.dumps(pickle.loads(pickle.dumps(work))(task))) for task in tasks
        ]

    analyze(preprocessing_fn, schema, output, run)


def outputs(graph, folder, schema=SCHEMA):
    spec = tft.tf_metadata.schema_utils.schema_as_feature_spec(schema).feature_spec
    files = sorted(map(str, (folder / "Split-train").iterdir()))
    records = next(iter(tf.data.TFRecordDataset(files, "GZIP").batch(10_000)))
    made = tft.TFTransformOutput(graph).transform_features_layer()
    return made(tf.io.parse_example(records, spec))


def files_of(graph, folder):
    """Content of the files in a folder of a graph, by name."""
    return {path.name: path.read_bytes() for path in Path(graph, folder).glob("*")}


def assert_equal_values(ours, theirs, name):
    if isinstance(theirs, tf.SparseTensor):
        np.testing.assert_array_equal(ours.indices, theirs.indices, name)
        ours, theirs = ours.values, theirs.values
    if theirs.dtype.is_floating:
        # float32 sums, whose batches are other ones.
        np.testing.assert_allclose(ours, theirs, rtol=2e-5, atol=2e-5, err_msg=name)
    else:
        np.testing.assert_array_equal(ours, theirs, name)


FUNCTIONS = [quantiles, vocabularies, two_phases, tables]


def analyzed(i):
    """All functions in one graph: a pipeline each takes most of its time to be made."""
    found = {f.__name__: f(i) for f in FUNCTIONS}
    return {f"{name}_{key}": x for name, outputs in found.items() for key, x in outputs.items()}


@pytest.fixture(scope="module", params=[analyzed, no_analyzer], ids=lambda f: f.__name__)
def graphs(request, folder, tmp_path_factory):
    """Folders of a graph made in batches and of one by TFT's own pipeline."""
    made = tmp_path_factory.mktemp("graphs")
    ours, theirs = str(made / "ours"), str(made / "theirs")
    in_batches(request.param, folder, ours)
    by_beam(request.param, folder, theirs)
    return ours, theirs


@pytest.mark.slow
def test_files_of_a_graph_equal_those_of_tft(graphs):
    ours, theirs = graphs
    assert sorted(os.listdir(ours)) == ["metadata", *sorted(os.listdir(theirs))]
    for name in ("transform_fn/assets", "transformed_metadata"):
        assert files_of(ours, name) == files_of(theirs, name)
    assert "schema.pbtxt" in files_of(ours, "transformed_metadata")


@pytest.mark.slow
def test_outputs_of_a_graph_equal_those_of_tft(graphs, folder):
    mine, other = (outputs(graph, folder) for graph in graphs)
    assert mine.keys() == other.keys()
    for name, values in other.items():
        assert_equal_values(mine[name], values, name)


OPTIONAL = "value_count { min: 0 max: 1 }"
SEVERAL = text_format.Parse(
    "".join(
        f'feature {{ name: "{name}" type: {kind} {form} }}'
        for name, kind, form in [
            *(("abc"[i], "FLOAT", FIXED % 1) for i in range(3)),
            ("d", "FLOAT", OPTIONAL),
            ("m", "INT", FIXED % 1),
            ("n", "INT", OPTIONAL),
            ("s", "BYTES", FIXED % 1),
            ("t", "BYTES", OPTIONAL),
        ]
    ),
    schema_pb2.Schema(),
)


def plus(x, value):
    """Adds a number to each value of a column, so that an analyzer's result is in the rows."""
    if isinstance(x, tf.SparseTensor):
        return tf.SparseTensor(x.indices, plus(x.values, value), x.dense_shape)
    return tf.cast(x, tf.float32) + tf.cast(value, tf.float32)


def twice_scaled(x):
    """Needs two phases."""
    return tft.scale_to_z_score(tft.scale_to_0_1(x))


# Analyzers that BatchTransform takes, by what they take.
NUMBERS = {
    "scale_to_0_1": tft.scale_to_0_1,
    "scale_by_min_max": lambda x: tft.scale_by_min_max(x, -1, 3),
    "scale_to_z_score": tft.scale_to_z_score,
    "scale_to_gaussian": tft.scale_to_gaussian,
    "of two phases": twice_scaled,
    "min": lambda x: plus(x, tft.min(x)),
    "max": lambda x: plus(x, tft.max(x)),
    "sum": lambda x: plus(x, tft.sum(x)),
    "mean": lambda x: plus(x, tft.mean(x)),
    "var": lambda x: plus(x, tft.var(x)),
    "size": lambda x: plus(x, tft.size(x)),
    "bucketize": lambda x: tft.bucketize(x, 4),
}
DENSE = {
    "scale_to_0_1 by element": lambda x: tft.scale_to_0_1(x, elementwise=True),
    "scale_by_min_max by element": lambda x: tft.scale_by_min_max(x, -1, 3, elementwise=True),
    "scale_to_z_score by element": lambda x: tft.scale_to_z_score(x, elementwise=True),
    "bucketize by element": lambda x: tft.bucketize(x, 4, elementwise=True),
    "min by element": lambda x: plus(x, tft.min(x, reduce_instance_dims=False)),
    "var by element": lambda x: plus(x, tft.var(x, reduce_instance_dims=False)),
    "quantiles": lambda x: plus(x, tft.quantiles(x, 4, 0.01)[0, 1]),
    "covariance": lambda x: plus(x, tft.covariance(tf.cast(x, tf.float32), tf.float32)[0, 0]),
    # Nothing is analyzed here: the rows themselves meet the fault of docs/upstream.md.
    "max of a row": lambda x: tf.reduce_max(tf.sqrt(tf.abs(tf.cast(x, tf.float32))), axis=1),
}
TEXTS = {
    "compute_and_apply_vocabulary": lambda x: tft.compute_and_apply_vocabulary(x),
    "top of a vocabulary": lambda x: tft.compute_and_apply_vocabulary(
        x, top_k=3, num_oov_buckets=2
    ),
    "frequent of a vocabulary": lambda x: tft.compute_and_apply_vocabulary(
        x, frequency_threshold=30
    ),
}
USES = [
    *((name, column) for name in NUMBERS for column in "abcdmn"),
    *((name, column) for name in DENSE for column in "abcm"),
    *((name, column) for name in TEXTS for column in "st"),
]


@pytest.fixture(scope="module")
def several(tmp_path_factory):
    def rows():
        rng = np.random.default_rng(3)
        for i in range(300):
            lows = {"a": 10, "b": 20, "c": -3, "d": 100}
            row = {name: [float(rng.uniform(low, low + 5))] for name, low in lows.items()}
            row |= {"m": [int(rng.integers(5, 50))], "n": [int(rng.integers(-9, 0))]}
            row |= {name: [b"%s%d" % (name.encode(), rng.zipf(1.7) % 9)] for name in "st"}
            for name, every in (("d", 4), ("n", 3), ("t", 5)):
                if i % every == 0:
                    del row[name]
            yield example(**row)

    return write_shards(tmp_path_factory.mktemp("several") / "rows", rows())


def used(inputs, uses):
    analyzers = {**NUMBERS, **DENSE, **TEXTS}
    return {f"{column} {name}": analyzers[name](inputs[column]) for name, column in uses}


def assert_equals_tft(uses, folder, path):
    preprocessing_fn = partial(used, uses=uses)
    ours, theirs = str(path / "ours"), str(path / "theirs")
    in_batches(preprocessing_fn, folder, ours, SEVERAL)
    by_beam(preprocessing_fn, folder, theirs, SEVERAL)
    mine, other = (outputs(graph, folder, SEVERAL) for graph in (ours, theirs))
    assert mine.keys() == other.keys()
    written = applied(ours, folder)
    for name, values in other.items():
        assert_equal_values(mine[name], values, name)
        flat = values.values if isinstance(values, tf.SparseTensor) else tf.reshape(values, [-1])
        assert_equal_values(tf.constant(written[name], flat.dtype), flat, name)


def applied(graph, folder):
    """Values of all rows by feature, as Pack and transformed Examples have them."""
    rows = TransformedRows(graph)
    batches = [b for task in shard_tasks(str(folder), "train") for b in rows(task.file, task.shard)]
    names = batches[0].schema.names
    return {
        name: np.concatenate([batch.column(name).flatten().to_numpy() for batch in batches])
        for name in names
    }


def test_two_columns_that_are_scaled_alone_have_their_own_minimum(tmp_path):
    rng = np.random.default_rng(0)
    ranges = {"a": (10, 15), "b": (20, 25)}
    drawn = [{name: [rng.uniform(*ends)] for name, ends in ranges.items()} for _ in range(500)]
    folder = write_shards(tmp_path / "rows", [example(**row) for row in drawn])
    form = FIXED % 1
    schema = text_format.Parse(
        "".join(f'feature {{ name: "{name}" type: FLOAT {form} }}' for name in ranges),
        schema_pb2.Schema(),
    )
    graph = str(tmp_path / "graph")
    in_batches(partial(used, uses=[("scale_to_0_1", name) for name in "ab"]), folder, graph, schema)
    found = outputs(graph, folder, schema)
    scaled = [(float(x.numpy().min()), float(x.numpy().max())) for x in found.values()]
    assert scaled == [(0.0, 1.0)] * 2


@pytest.mark.slow
def test_all_analyzers_of_all_columns_together_equal_tft(several, tmp_path):
    assert_equals_tft(USES, several, tmp_path)


@few_or_many(2)
def test_any_analyzers_of_any_columns_equal_tft(draws, several, tmp_path_factory):
    @drawn(draws)
    @hypothesis.given(st.lists(st.sampled_from(USES), min_size=2, max_size=6, unique=True))
    def check(uses):
        assert_equals_tft(uses, several, tmp_path_factory.mktemp("drawn"))

    check()


def test_float32_z_scores_by_element_lose_no_digits_in_long_shards(tmp_path):
    values = (1000 + np.random.default_rng(3).normal(size=(16_384, 3))).astype(np.float32)
    raw = [example(x=[0.0], k=[b""], n=[0], v=v, words=None, label=[0]) for v in values.tolist()]
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

    analyze(lambda i: {"k": vocabulary(i["k"], "k")}, SCHEMA, str(tmp_path), run)
    assert len(held) == 40
    assert max(held) <= 17


def by_information(i):
    return {"k": vocabulary(i["k"], "mi", labels=i["label"])}


def by_coverage(i):
    key = lambda token: token[:4]  # noqa: E731
    return {"k": vocabulary(i["k"], "c", coverage_top_k=1, top_k=2, key_fn=key)}


def shuffled(i):
    return {"k": vocabulary(i["k"], "s", fingerprint_shuffle=True)}


def per_key(i):
    return {"z": tft.scale_to_z_score_per_key(i["x"][:, 0], i["k"][:, 0])}


def by_ptransform(i):
    class Count(beam.PTransform):
        def expand(self, pcoll):
            return pcoll | beam.combiners.Count.Globally()

    [n] = tft.experimental.ptransform_analyzer([i["x"]], Count(), [tf.int64], [[]])
    return {"x": i["n"] + n}


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (by_information, "by weights or mutual information"),
        (shuffled, "shuffled or no text file"),
        (per_key, "operation CacheableCombinePerKeyAccumulate"),
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
