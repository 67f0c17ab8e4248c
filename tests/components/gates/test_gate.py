import json

import pytest
from google.protobuf import text_format
from tensorflow_metadata.proto.v0 import anomalies_pb2, statistics_pb2

import penstock
from penstock.components.errors import DataError
from penstock.components.gates.gate import find_problems
from penstock.components.gates.options import GateOptions
from penstock.components.plain import to_json
from penstock.components.tfrecord.manifest import Manifest, RowAccount, write_manifest


def statistics(text, rows=10):
    message = text_format.Parse(text, statistics_pb2.DatasetFeatureStatistics())
    message.num_examples = rows
    return message


def tips(low=0.0, high=3.0, present=10, nan=0):
    return statistics(
        f"""features {{ path {{ step: "tips" }} type: FLOAT num_stats {{
            common_stats {{ num_non_missing: {present} num_missing: {10 - present} }}
            min: {low} max: {high} histograms {{ num_nan: {nan} }} }} }}"""
    )


def kind(unique):
    return statistics(
        f"""features {{ name: "kind" type: STRING string_stats {{
            common_stats {{ num_non_missing: 10 }} unique: {unique} }} }}"""
    )


def anomalies(text):
    return text_format.Parse(text, anomalies_pb2.Anomalies())


def manifest(quarantined, written=90, quarantine=None):
    return Manifest(
        splits={"train": ()},
        columns=(),
        schema_sha256="0" * 64,
        source_kind="csv",
        source_fingerprint="0" * 64,
        source_files=1,
        account=RowAccount(written + quarantined, {"train": written}, quarantined),
        quarantine=quarantine,
    )


FOUND = anomalies(
    """anomaly_info { key: "fare" value { severity: ERROR
         description: "Unexpectedly high value:\\n 78450>10000" } }
       anomaly_info { key: "company" value { severity: WARNING description: "meh" } }
       anomaly_info { key: "area" value { severity: ERROR short_description: "gone" } }
       dataset_anomaly_info { severity: ERROR description: "too few examples" }"""
)
ONE_VALUE = "has one value in all rows; expected at least two classes"


@pytest.mark.parametrize(
    ("of_split", "label", "problem"),
    [
        (tips(), "tips", None),
        (kind(unique=2), "kind", None),
        (statistics("", rows=0), "tips", ": no rows; expected at least one"),
        (tips(low=1, high=1), "tips", f", label 'tips': {ONE_VALUE}"),
        (kind(unique=1), "kind", f", label 'kind': {ONE_VALUE}"),
        (tips(present=8), "tips", ", label 'tips': missing in 2 of 10 rows; expected it in all"),
        (tips(nan=2), "tips", ", label 'tips': missing in 2 of 10 rows; expected it in all"),
        (
            tips(low=0, high=0, present=0),
            "tips",
            ", label 'tips': missing in 10 of 10 rows; expected it in all",
        ),
        (tips(), "tip", ", label 'tip': is not in the data; expected it in every row"),
        (
            tips(high="inf"),
            None,
            ", feature 'tips': has infinite values; expected finite ones",
        ),
        (tips(nan=2), None, ", feature 'tips': 2 values are NaN; expected numbers, or none"),
    ],
)
def test_each_problem_of_a_split_is_one_line(of_split, label, problem):
    options = GateOptions(labels=(label,) if label else ())
    expected = [f"split 'eval'{problem}"] if problem else []
    assert find_problems({"eval": of_split}, {}, None, options) == expected


def test_anomalies_are_listed_by_feature_and_split():
    assert find_problems({"eval": tips()}, {"eval": FOUND}, None, GateOptions()) == [
        "split 'eval', feature 'area': gone",
        "split 'eval', feature 'fare': Unexpectedly high value: 78450>10000",
        "split 'eval', the data set: too few examples",
    ]


def test_quarantined_rows_are_a_problem_above_their_share():
    options = GateOptions(max_quarantined_share=0.1)
    assert find_problems({"train": tips()}, {}, manifest(10), options) == []
    assert find_problems({"train": tips()}, {}, manifest(20, quarantine="q.csv"), options) == [
        "20 of 110 rows were quarantined (18.18%); expected at most 10.00%; see q.csv"
    ]


@pytest.fixture
def artifacts(tmp_path):
    """A function that writes statistics and anomalies of one split, as TFX's own nodes do."""
    from tfx.types import standard_artifacts

    def make(split_statistics, split_anomalies):
        made = {}
        for name, cls in (
            ("statistics", standard_artifacts.ExampleStatistics),
            ("anomalies", standard_artifacts.ExampleAnomalies),
            ("examples", standard_artifacts.Examples),
        ):
            made[name] = cls()
            made[name].uri = str(tmp_path / name)
            made[name].split_names = '["train"]'
            (tmp_path / name / "Split-train").mkdir(parents=True)
        dataset = statistics_pb2.DatasetFeatureStatisticsList(datasets=[split_statistics])
        content = dataset.SerializeToString()
        (tmp_path / "statistics/Split-train/FeatureStats.pb").write_bytes(content)
        content = split_anomalies.SerializeToString()
        (tmp_path / "anomalies/Split-train/SchemaDiff.pb").write_bytes(content)
        # The name of the statistics file depends on the TFX version that wrote the statistics.
        made["statistics"].set_string_custom_property("tfx_version", "1.16.0")
        return made

    return make


def run_gate(artifacts, **options):
    from penstock.components.gates.gate import ValidationGate

    limits = to_json(GateOptions(max_quarantined_share=0.0, **options))
    gate = ValidationGate.test_call(**artifacts, options=limits)
    return json.loads(gate["verdict"])


def test_gate_passes_good_data_without_a_manifest(artifacts):
    made = artifacts(tips(), anomalies_pb2.Anomalies())
    verdict = run_gate(made, labels=("tips",), leakage="off")
    assert verdict == {"rows": {"train": 10}, "leakage": []}


def test_gate_tells_leakage_or_stops_for_it(artifacts, tmp_path):
    made = artifacts(tips(), anomalies_pb2.Anomalies())
    rows = "".join(f"{i / 7},{i / 7 + 1},{i % 5}\n" for i in range(400))
    (tmp_path / "trips.csv").write_text("tips,paid,zone\n" + rows)
    made["examples"].uri = str(tmp_path / "shards")
    penstock.ingest(str(tmp_path / "trips.csv"), tmp_path / "shards")
    [line] = run_gate(made, labels=("tips",))["leakage"]
    assert line.startswith("paid alone gives tips away")
    assert run_gate(made, labels=("tips",), left_out=("paid",))["leakage"] == []
    with pytest.raises(DataError, match="paid alone gives tips away"):
        run_gate(made, labels=("tips",), leakage="stop")


def test_gate_lists_all_problems(artifacts, tmp_path):
    found = anomalies('anomaly_info { key: "x" value { severity: ERROR description: "gone" } }')
    made = artifacts(tips(low=1, high=1), found)
    write_manifest(tmp_path / "examples", manifest(10))
    with pytest.raises(DataError) as error:
        run_gate(made, labels=("tips",))
    assert str(error.value) == (
        "the data is unfit to train on, 3 problems:\n"
        "  - 10 of 100 rows were quarantined (10.00%); expected at most 0.00%\n"
        "  - split 'train', feature 'x': gone\n"
        "  - split 'train', label 'tips': has one value in all rows; "
        "expected at least two classes"
    )
