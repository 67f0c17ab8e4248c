"""Statistics in batches, compared with those of TFDV's own pipeline, value by value."""

import pickle
from dataclasses import replace

import apache_beam as beam
import hypothesis
import hypothesis.strategies as st
import numpy as np
import pyarrow as pa
import pytest
import tensorflow as tf
import tensorflow_data_validation as tfdv
from drawn import drawn
from google.protobuf import text_format
from local_beam import local_pipeline
from row_files import example, write_shards
from statistics_leaves import assert_equal_statistics
from tensorflow_metadata.proto.v0 import schema_pb2, statistics_pb2
from tfx_bsl.coders.example_coder import ExamplesToRecordBatchDecoder
from tfx_bsl.coders.sequence_example_coder import SequenceExamplesToRecordBatchDecoder
from tfx_bsl.public.proto import slicing_spec_pb2

from penstock.components.batches.fallback import NotInBatchesError
from penstock.components.batches.shards import read_batches, shard_tasks
from penstock.components.batches.statistics import SummarizeShard, require_in_batches


def schema(text):
    return text_format.Parse(text, schema_pb2.Schema())


CATEGORIES = "".join(
    f'feature {{ name: "{name}" type: INT int_domain {{ is_categorical: true }} }} '
    for name in ("category", "label")
)
OF_TWO_FEATURES = """
sparse_feature { name: "s" index_feature { name: "index" } value_feature { name: "value" } }
weighted_feature {
  name: "w" feature { step: "many_ints" } weight_feature { step: "many_floats" }
}"""
# TFDV takes seconds to build the pipeline of a case, so independent options share a case.
CASES = {
    "taxi": ("taxi", {}),
    "taxi options": (
        "taxi",
        {
            "schema": schema('feature { name: "company" type: BYTES }'),
            "feature_allowlist": ["fare", "tips", "company", "payment_type"],
            "num_top_values": 5,
            "num_rank_histogram_buckets": 7,
            "num_quantiles_histogram_buckets": 3,
            "frequency_threshold": 50,
        },
    ),
    "taxi weight": ("taxi", {"weight_feature": "trip_miles"}),
    "mixed schema": ("mixed", {"schema": schema(CATEGORIES + OF_TWO_FEATURES)}),
    "mixed weight": ("mixed", {"weight_feature": "weight", "schema": schema(CATEGORIES)}),
    "sequences": ("sequences", {}),
}
# Relative tolerance for the cases with weights, which TFDV sums in float32.
RELATIVE = {"taxi weight": 1e-6, "mixed weight": 1e-6}


def tfx_batches(folder, kind):
    """The rows in batches of 1,000, as tfx_bsl decodes them."""
    decoder = (
        SequenceExamplesToRecordBatchDecoder("##SEQUENCE##")
        if kind == "sequences"
        else ExamplesToRecordBatchDecoder()
    )
    files = sorted(map(str, (folder / "Split-train").iterdir()))
    for file in files:
        compression = "GZIP" if file.endswith(".gz") else ""
        for records in tf.data.TFRecordDataset(file, compression).batch(1000):
            yield decoder.DecodeBatch(records.numpy().tolist())


@pytest.fixture(scope="module")
def of_tfdv(rows, tmp_path_factory):
    """TFDV's own statistics of each case, all computed by one pipeline."""
    folder = tmp_path_factory.mktemp("tfdv")
    with local_pipeline() as pipeline:
        sources = {
            kind: pipeline | f"rows {kind}" >> beam.Create(list(tfx_batches(place, kind)))
            for kind, place in rows.items()
        }
        for name, (kind, options) in CASES.items():
            _ = (
                sources[kind]
                | name >> tfdv.GenerateStatistics(tfdv.StatsOptions(**options))
                | f"write {name}" >> tfdv.WriteStatisticsToBinaryFile(str(folder / name))
            )

    def read(name):
        data = (folder / name).read_bytes()
        return statistics_pb2.DatasetFeatureStatisticsList.FromString(data)

    return read


def in_batches(folder, kind, options):
    """Statistics of three shards, merged as if other processes had computed them."""
    work = SummarizeShard(tfdv.StatsOptions(**options).to_json(), kind == "sequences")
    tasks = shard_tasks(str(folder), "train")
    assert len(tasks) == 3
    return work.merged(pickle.loads(pickle.dumps(work(task))) for task in tasks)


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_statistics_of_shards_merged_equal_tfdv(name, rows, of_tfdv):
    kind, options = CASES[name]
    ours = in_batches(rows[kind], kind, options)
    assert_equal_statistics(ours, of_tfdv(name), relative=RELATIVE.get(name, 1e-9))


@pytest.mark.parametrize("kind", ["taxi", "mixed"])
def test_batches_of_a_shard_equal_those_of_tfx_bsl(kind, rows):
    [first, *_] = shard_tasks(str(rows[kind]), "train")
    ours = pa.Table.from_batches(read_batches(first))
    records = list(tf.data.TFRecordDataset(first.file, "" if kind == "taxi" else "GZIP"))
    theirs = ExamplesToRecordBatchDecoder().DecodeBatch([record.numpy() for record in records])
    assert sorted(ours.column_names) == sorted(theirs.schema.names)
    for name in ours.column_names:
        column = theirs.column(theirs.schema.names.index(name))
        # The values are compared as text, because NaN does not equal itself.
        assert str(ours[name].to_pylist()) == str(column.to_pylist())


def test_a_list_column_of_a_manifest_keeps_empty_apart_from_missing(rows):
    [first, *_] = shard_tasks(str(rows["mixed"]), "train")
    known = replace(first, kinds=frozenset({("words", "BYTES")}))
    [batch] = read_batches(known)
    column = batch.column(batch.schema.names.index("words"))
    assert column.null_count > 0
    many = batch.column(batch.schema.names.index("many_ints"))
    assert many.null_count > 0
    assert [] in many.to_pylist()


def test_no_rows_give_one_empty_dataset():
    [dataset] = SummarizeShard(tfdv.StatsOptions().to_json()).merged([]).datasets
    assert dataset == statistics_pb2.DatasetFeatureStatistics()


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"label_feature": "tips", "schema": schema(CATEGORIES)}, "label_feature"),
        ({"experimental_result_partitions": 2}, "result partitions"),
        (
            {"per_feature_weight_override": {tfdv.types.FeaturePath(["a"]): "w"}},
            "per_feature_weight_override",
        ),
        ({"sample_rate": 0.5}, "sample_rate"),
        ({"slicing_config": slicing_spec_pb2.SlicingConfig()}, "slices"),
    ],
)
def test_options_that_tfdv_alone_supports_are_named(options, reason):
    with pytest.raises(NotInBatchesError, match=reason):
        require_in_batches(tfdv.StatsOptions(**options))


# By kind of column: its domain in a schema, and a function that draws a value.
KINDS = {
    "floats": ("", lambda rng: float(rng.normal(5, 100))),
    "odd floats": ("", lambda rng: [1.0, -0.0, float("nan"), float("inf")][rng.integers(4)]),
    "ints": ("", lambda rng: int(rng.integers(-3, 3)) * 10 ** int(rng.integers(12))),
    "classes": ("int_domain {is_categorical: true}", lambda rng: int(rng.integers(5))),
    "words": ("", lambda rng: b"w%d" % rng.zipf(1.5)),
    "odd texts": ("", lambda rng: [b"", b" ", "ü".encode(), b"x" * 1000][rng.integers(4)]),
    "numbers as texts": ("", lambda rng: b"%d" % rng.integers(30)),
}
# By form of column: a function that draws the number of values in a row, or None for a row without
# the column.
FORMS = {
    "dense": lambda rng: 1,
    "pairs": lambda rng: 2,
    "lists": lambda rng: int(rng.integers(4)),
    "sparse": lambda rng: [1, None, 2][rng.integers(3)],
    "rare": lambda rng: None if rng.integers(40) else 1,
    "missing": lambda rng: None,
}


def drawn_rows(columns, seed, count):
    rng = np.random.default_rng(seed)
    for _ in range(count):
        row = {"weight": [float(rng.integers(1, 9)) / 8]}
        for i, (kind, form) in enumerate(columns):
            length = FORMS[form](rng)
            if length is not None:
                row[f"{kind} {i}"] = [KINDS[kind][1](rng) for _ in range(length)] or None
        yield example(**row)


@st.composite
def drawn_statistics(draw):
    """Columns, number of rows, and TFDV's options."""
    column = st.tuples(st.sampled_from([*KINDS]), st.sampled_from([*FORMS]))
    columns = draw(st.lists(column, min_size=3, max_size=8))
    options = {
        "num_top_values": draw(st.sampled_from([2, 20])),
        "num_rank_histogram_buckets": draw(st.sampled_from([3, 1000])),
        "num_quantiles_histogram_buckets": draw(st.sampled_from([2, 10])),
        "num_values_histogram_buckets": draw(st.sampled_from([2, 10])),
    }
    if draw(st.booleans()):
        domains = "".join(
            f'feature {{ name: "{kind} {i}" type: INT {KINDS[kind][0]} }} '
            for i, (kind, _) in enumerate(columns)
            if KINDS[kind][0]
        )
        options["schema"] = schema(domains)
    if draw(st.booleans()):
        options["weight_feature"] = "weight"
    options["enable_semantic_domain_stats"] = draw(st.booleans())
    options["frequency_threshold"] = draw(st.sampled_from([1, 3]))
    return columns, draw(st.integers(1, 300)), options


@pytest.mark.slow
def test_statistics_of_any_columns_and_options_equal_tfdv(tmp_path_factory):
    @drawn()
    @hypothesis.given(drawn_statistics())
    def check(case):
        columns, count, options = case
        folder = tmp_path_factory.mktemp("case")
        write_shards(folder, drawn_rows(columns, len(columns), count))
        relative = 1e-6 if "weight_feature" in options else 1e-9
        with local_pipeline() as pipeline:
            _ = (
                pipeline
                | beam.Create(list(tfx_batches(folder, "rows")))
                | tfdv.GenerateStatistics(tfdv.StatsOptions(**options))
                | tfdv.WriteStatisticsToBinaryFile(str(folder / "theirs"))
            )
        theirs = statistics_pb2.DatasetFeatureStatisticsList.FromString(
            (folder / "theirs").read_bytes()
        )
        assert_equal_statistics(in_batches(folder, "rows", options), theirs, relative=relative)

    check()
