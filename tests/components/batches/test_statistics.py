"""Statistics in batches against TFDV's own pipeline, leaf by leaf."""

import pickle
from dataclasses import replace

import apache_beam as beam
import pyarrow as pa
import pytest
import tensorflow as tf
import tensorflow_data_validation as tfdv
from google.protobuf import text_format
from local_beam import local_pipeline
from statistics_leaves import assert_equal_statistics
from tensorflow_data_validation.statistics.generators.cross_feature_stats_generator import (
    CrossFeatureStatsGenerator,
)
from tensorflow_metadata.proto.v0 import schema_pb2, statistics_pb2
from tfx_bsl.coders.example_coder import ExamplesToRecordBatchDecoder
from tfx_bsl.coders.sequence_example_coder import SequenceExamplesToRecordBatchDecoder
from tfx_bsl.public.proto import slicing_spec_pb2

from penstock.components.batches.shards import read_batches, read_sequences, shard_tasks
from penstock.components.batches.statistics import (
    add,
    extract,
    make_plan,
    merge,
    not_in_batches,
)


def schema(text):
    return text_format.Parse(text, schema_pb2.Schema())


def slices(text):
    return text_format.Parse(text, slicing_spec_pb2.SlicingConfig())


CATEGORIES = "".join(
    f'feature {{ name: "{name}" type: INT int_domain {{ is_categorical: true }} }} '
    for name in ("category", "label")
)
OF_TWO_FEATURES = """
sparse_feature { name: "s" index_feature { name: "index" } value_feature { name: "value" } }
weighted_feature {
  name: "w" feature { step: "many_ints" } weight_feature { step: "many_floats" }
}"""
BY_TYPE_AND_VALUE = slices(
    'slicing_specs { feature_keys: "payment_type" } slicing_specs { feature_keys: "payment_type"'
    ' feature_values { key: "trip_start_day" value: "3" } }'
)
BY_ID = slices('slicing_specs { feature_keys: "id" }')
# A pipeline of TFDV's takes seconds to be made: options that do not touch each other share one.
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
            "generators": [
                CrossFeatureStatsGenerator(feature_crosses=[("fare", "tips")], sample_rate=1.0)
            ],
        },
    ),
    "taxi weight": ("taxi", {"weight_feature": "trip_miles"}),
    "taxi slices": ("taxi", {"slicing_config": BY_TYPE_AND_VALUE}),
    "taxi sketch": ("taxi", {"use_sketch_based_topk_uniques": True}),
    "mixed": ("mixed", {}),
    "mixed schema": ("mixed", {"schema": schema(CATEGORIES + OF_TWO_FEATURES)}),
    "mixed weight": ("mixed", {"weight_feature": "weight", "schema": schema(CATEGORIES)}),
    "wide": ("wide", {}),
    "sequences": ("sequences", {}),
    "sequences slices": ("sequences", {"slicing_config": BY_ID}),
}
# Weights and cross features are sums of float32 in TFDV.
RELATIVE = {"taxi weight": 1e-6, "mixed weight": 1e-6}


def tfx_batches(folder, kind):
    """The rows in batches of TFX's size, by tfx_bsl's decoder."""
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
    """TFDV's own statistics of each case, by one pipeline."""
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


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_statistics_of_shards_merged_equal_tfdv(name, rows, of_tfdv):
    kind, options = CASES[name]
    plan = make_plan(tfdv.StatsOptions(**options))
    read = read_sequences if kind == "sequences" else read_batches
    tasks = shard_tasks(str(rows[kind]), "train")
    assert len(tasks) == 3
    parts = [pickle.loads(pickle.dumps(add(plan, read(task)))) for task in tasks]
    ours = extract(plan, merge(plan, parts))
    assert_equal_statistics(ours, of_tfdv(name), relative=RELATIVE.get(name, 1e-9))


@pytest.mark.parametrize("kind", ["taxi", "mixed", "wide"])
def test_batches_of_a_shard_equal_those_of_tfx_bsl(kind, rows):
    [first, *_] = shard_tasks(str(rows[kind]), "train")
    ours = pa.Table.from_batches(read_batches(first))
    records = list(tf.data.TFRecordDataset(first.file, "" if kind == "taxi" else "GZIP"))
    theirs = ExamplesToRecordBatchDecoder().DecodeBatch([record.numpy() for record in records])
    assert sorted(ours.column_names) == sorted(theirs.schema.names)
    for name in ours.column_names:
        column = theirs.column(theirs.schema.names.index(name))
        # As text, because NaN is not equal to itself.
        assert str(ours[name].to_pylist()) == str(column.to_pylist())


def test_a_list_column_of_a_manifest_keeps_empty_apart_from_missing(rows):
    [first, *_] = shard_tasks(str(rows["mixed"]), "train")
    known = replace(first, kinds=frozenset({("words", "BYTES")}), lists=frozenset({"words"}))
    [batch] = read_batches(known)
    column = batch.column(batch.schema.names.index("words"))
    assert column.null_count > 0
    many = batch.column(batch.schema.names.index("many_ints"))
    assert many.null_count > 0
    assert [] in many.to_pylist()


def test_no_rows_give_one_empty_dataset():
    plan = make_plan(tfdv.StatsOptions())
    assert len(extract(plan, merge(plan, [])).datasets) == 1


def test_a_sample_rate_of_0_keeps_no_rows_and_of_1_all(rows):
    [first, *_] = shard_tasks(str(rows["wide"]), "train")
    counts = []
    for rate in (1e-9, 1.0):
        plan = make_plan(tfdv.StatsOptions(sample_rate=rate))
        counts.append(extract(plan, add(plan, read_batches(first))).datasets[0].num_examples)
    assert counts == [0, first.shard.rows]


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"label_feature": "tips", "schema": schema(CATEGORIES)}, "label_feature"),
        ({"experimental_result_partitions": 2}, "result partitions"),
        (
            {"per_feature_weight_override": {tfdv.types.FeaturePath(["a"]): "w"}},
            "per_feature_weight_override",
        ),
        ({}, None),
        ({"sample_rate": 0.5, "enable_semantic_domain_stats": True}, None),
    ],
)
def test_options_that_tfdv_alone_supports_are_named(options, reason):
    found = not_in_batches(tfdv.StatsOptions(**options))
    assert (reason in found) if reason else found is None
