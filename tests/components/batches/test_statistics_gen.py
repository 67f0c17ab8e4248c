"""Inputs and outputs of BatchStatisticsGen compared with those of TFX's StatisticsGen."""

import json
import logging

import pytest
import tensorflow_data_validation as tfdv
from google.protobuf import text_format
from row_files import artifact
from statistics_leaves import assert_equal_statistics
from tensorflow_metadata.proto.v0 import schema_pb2
from tfx.components.statistics_gen import executor as stock
from tfx.components.statistics_gen.stats_artifact_utils import load_statistics
from tfx.components.util import examples_utils
from tfx.dsl.components.base.base_beam_executor import BaseBeamExecutor
from tfx.proto import example_gen_pb2
from tfx.types.standard_artifacts import Examples, ExampleStatistics, Schema

from penstock.components.batches import statistics_gen
from penstock.components.batches.statistics_gen import Executor
from penstock.components.engine.options import local_beam_args

SCHEMA = 'feature { name: "company" type: BYTES }'


@pytest.fixture
def do(tmp_path, rows):
    """Runs an executor; returns the artifact of the statistics."""

    def run(executor, *, kind="taxi", splits='["train", "eval"]', workers=1, inputs=(), **options):
        examples = artifact(Examples, rows[kind])
        examples.split_names, examples.span = splits, 3
        form = "FORMAT_TF_SEQUENCE_EXAMPLE" if kind == "sequences" else "FORMAT_TF_EXAMPLE"
        examples_utils.set_payload_format(examples, example_gen_pb2.PayloadFormat.Value(form))
        out = artifact(ExampleStatistics, tmp_path / executor.__module__)
        context = BaseBeamExecutor.Context(beam_pipeline_args=local_beam_args(workers))
        executor(context).Do(
            {"examples": [examples], **dict(inputs)},
            {"statistics": [out]},
            {"exclude_splits": "[]", **options},
        )
        return out

    return run


def properties(made):
    return {
        "splits": made.split_names,
        "span": made.span,
        "link": made.get_string_custom_property("stats_dashboard_link"),
        "rates": made.get_json_value_custom_property("sample_rate_by_split"),
    }


@pytest.mark.slow
def test_artifact_equals_that_of_tfx(do, tmp_path):
    folder = tmp_path / "schema"
    folder.mkdir()
    (folder / "schema.pbtxt").write_text(SCHEMA)
    schema = [("schema", [artifact(Schema, folder)])]
    ours, theirs = (do(kind, inputs=schema) for kind in (Executor, stock.Executor))
    assert properties(ours) == properties(theirs)
    assert ours.get_string_custom_property("not_in_batches") == ""
    assert ours.get_string_custom_property("estimated_features") == "[]"
    for split in ("train", "eval"):
        assert_equal_statistics(
            load_statistics(ours, split).proto(), load_statistics(theirs, split).proto()
        )


@pytest.mark.slow
def test_two_processes_give_the_bytes_and_row_counts_of_one(do, counted):
    bytes_of, last = [], []
    for workers in (1, 2):
        made = do(Executor, splits='["train"]', workers=workers)
        with open(f"{made.uri}/Split-train/FeatureStats.pb", "rb") as file:
            bytes_of.append(file.read())
        last.append(counted[-1])
    assert bytes_of[0] == bytes_of[1]
    assert last[0] == last[1] == (last[0][1], last[0][1])


def test_an_excluded_split_has_no_statistics(do, tmp_path):
    made = do(Executor, exclude_splits='["eval"]')
    assert made.split_names == '["train"]'
    assert not (tmp_path / Executor.__module__ / "Split-eval").exists()


def test_what_only_tfdv_supports_is_done_by_tfx_with_the_reason(do, monkeypatch, caplog):
    caplog.set_level(logging.INFO, logger="penstock")
    done = []
    monkeypatch.setattr(stock.Executor, "Do", lambda self, *of: done.append(of))
    schema = text_format.Parse('feature { name: "tips" type: FLOAT }', schema_pb2.Schema())
    options = tfdv.StatsOptions(label_feature="tips", schema=schema)
    made = do(Executor, stats_options_json=options.to_json())
    assert len(done) == 1
    assert made.get_string_custom_property("not_in_batches") == "label_feature"
    assert "not in batches but by TFDV's own pipeline: label_feature" in caplog.text


def test_no_split_is_refused(do):
    with pytest.raises(ValueError, match="no splits"):
        do(Executor, exclude_splits='["train", "eval"]')


def test_features_of_more_values_than_are_counted_are_named(do, monkeypatch):
    monkeypatch.setattr(statistics_gen, "MAX_EXACT_VALUES", 5)
    made = do(Executor, splits='["train"]')
    names = json.loads(made.get_string_custom_property("estimated_features"))
    assert "company" in names
    assert "payment_type" not in names
