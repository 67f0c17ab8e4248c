"""Validation of an Examples folder without a pipeline, over TFDV itself."""

import shutil

import pytest
from tensorflow_metadata.proto.v0 import anomalies_pb2, statistics_pb2

from penstock.components.errors import DataError
from penstock.components.example_gen.ingest import ingest
from penstock.components.example_gen.options import IngestInput, IngestOptions, SplitOptions
from penstock.components.gates.checks import GateOptions
from penstock.components.tfrecord.sharding import ShardOptions
from penstock.pipelines.kubeflow.plain.validate import keep_validation, validate_examples

SCHEMA = """
feature { name: "fare" type: FLOAT float_domain { max: 20 } }
feature { name: "label" type: INT presence { min_fraction: 1.0 } }
"""


@pytest.fixture(scope="module")
def examples(tmp_path_factory):
    folder = tmp_path_factory.mktemp("validated")
    rows = "".join(f"{i / 2},{i % 2}\n" for i in range(60))
    (folder / "trips.csv").write_text("fare,label\n" + rows)
    options = IngestOptions(shards=ShardOptions(shards=1))
    job = IngestInput(str(folder / "trips.csv"), splits=SplitOptions())
    ingest([job], folder / "examples", options)
    return folder / "examples"


@pytest.fixture(scope="module")
def unfit(examples):
    return validate_examples(examples, GateOptions(labels=("label",)), schema_text=SCHEMA)


def test_validate_without_schema_finds_no_problems(examples):
    told = []
    found = validate_examples(examples, GateOptions(labels=("label",)), report=told.append)

    assert found.problems == ()
    assert sum(found.rows.values()) == 60
    assert list(found.rows) == ["train", "eval"]
    assert {feature.name for feature in found.schema.feature} == {"fare", "label"}
    assert told == [
        "checking the bytes of 2 shards",
        "statistics of split 'train'",
        "statistics of split 'eval'",
    ]
    found.raise_problems()


def test_validate_against_a_given_schema(unfit):
    train, evaluation = unfit.problems
    assert train.startswith("split 'train', feature 'fare': Unexpectedly high value: 29.5>20")
    assert evaluation.startswith("split 'eval', feature 'fare': Unexpectedly high value: 28>20")
    with pytest.raises(DataError, match=r"^the data is unfit to train on, 2 problems:\n  - spl"):
        unfit.raise_problems()


def test_keep_validation_writes_the_layout_of_tfx(unfit, tmp_path):
    kept = tmp_path / "deep" / "kept"
    keep_validation(unfit, kept, schema=tmp_path / "schema.pbtxt", page=tmp_path / "report.html")

    assert sorted(str(p.relative_to(kept)) for p in kept.rglob("*") if p.is_file()) == [
        "Split-eval/FeatureStats.pb",
        "Split-eval/SchemaDiff.pb",
        "Split-train/FeatureStats.pb",
        "Split-train/SchemaDiff.pb",
    ]
    assert 'name: "fare"' in (tmp_path / "schema.pbtxt").read_text()
    statistics = statistics_pb2.DatasetFeatureStatisticsList.FromString(
        (kept / "Split-train/FeatureStats.pb").read_bytes()
    )
    assert statistics.datasets[0].num_examples == unfit.rows["train"]
    anomalies = anomalies_pb2.Anomalies.FromString((kept / "Split-eval/SchemaDiff.pb").read_bytes())
    assert list(anomalies.anomaly_info) == ["fare"]
    page = (tmp_path / "report.html").read_text()
    assert "Unfit to train on: 2 problems" in page
    assert '<td>eval</td><td class="bad-text">error</td>' in page


def test_validate_examples_without_manifest(examples, tmp_path):
    copy = tmp_path / "examples"
    shutil.copytree(examples, copy)
    (copy / "manifest.json").unlink()
    shutil.rmtree(copy / "Split-train")
    (copy / "Split-late").mkdir()

    found = validate_examples(copy, GateOptions())
    assert list(found.rows) == ["eval", "late"]
    assert found.rows["late"] == 0
    assert list(found.problems) == ["split 'late': no rows; expected at least one"]


def test_validate_damaged_shard_is_named_first(examples, tmp_path):
    copy = tmp_path / "examples"
    shutil.copytree(examples, copy)
    shard = next((copy / "Split-train").iterdir())
    content = bytearray(shard.read_bytes())
    content[20] ^= 1
    shard.write_bytes(content)

    with pytest.raises(DataError, match=r"Split-train/data_tfrecord-00000-of-00001"):
        validate_examples(copy, GateOptions())


def test_validate_other_folder_is_refused(tmp_path):
    expected = rf"^{tmp_path}: no Examples folder, it has neither manifest.json nor Split-\*; "
    with pytest.raises(DataError, match=expected):
        validate_examples(tmp_path, GateOptions())


def test_validate_invalid_schema_is_refused(examples):
    with pytest.raises(DataError, match=r"^the schema: not a TFMD schema.pbtxt"):
        validate_examples(examples, GateOptions(), schema_text="feature {")
