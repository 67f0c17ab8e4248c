"""Resolvers of artifacts of earlier runs: alone, compiled, and in whole runs."""

import csv
import hashlib
import json
from dataclasses import replace

import pytest
from tfx.proto import range_config_pb2
from tfx.types.standard_artifacts import Examples

from penstock.components.errors import UsageError
from penstock.components.example_gen.spans import LatestSpansStrategy
from penstock.components.gates.options import GateOptions, KServeOptions
from penstock.pipelines.blocks.config import TuneOptions
from penstock.pipelines.blocks.pipeline import pipeline_of
from penstock.pipelines.kubeflow.ir import compile_ir
from penstock.pipelines.kubeflow.plan import plan_ir
from penstock.pipelines.taxi.config import Config
from penstock.pipelines.taxi.pipeline import create_pipeline


def of_span(number, span):
    artifact = Examples()
    artifact.id = number
    artifact.set_int_custom_property("span", span)
    return artifact


def int_of(folder):
    return int(folder.name)


@pytest.mark.parametrize(
    ("spans", "read"),
    [
        # TFX's own strategy returns both Examples of span 3, so the rows would be read twice.
        ([3, 1, 3, 4, 0], [3, 2]),
        ([0, 0], [1]),  # data without spans
    ],
)
def test_last_spans_are_read_once_each(spans, read):
    rolling = range_config_pb2.RollingRange(num_spans=2)
    strategy = LatestSpansStrategy(range_config_pb2.RangeConfig(rolling_range=rolling))
    given = [of_span(number, span) for number, span in enumerate(spans)]
    found = strategy.resolve_artifacts(None, {"examples": given})
    assert [artifact.id for artifact in found["examples"]] == read


def made(tmp_path, **changes):
    """Nodes of the pipeline by id, and ids of the tasks before each of them."""
    pipeline = create_pipeline(replace(Config(), root=str(tmp_path), **changes))
    tasks = plan_ir(compile_ir(pipeline)).tasks
    return {node.id: node for node in pipeline.components}, {t.node_id: t.upstream for t in tasks}


def test_resolvers_are_nodes_of_a_compiled_pipeline(tmp_path):
    _, upstream = made(tmp_path, last_spans=3, start_from="blessed")
    assert upstream["Spans"] == ("shardedexamplegen",)
    assert "spans" in upstream["Transform"]
    assert upstream["BaseModel"] == ("transform",)
    assert "basemodel" in upstream["Trainer"]
    assert "servingcheck" in upstream["Pusher"]


def test_base_model_path_and_digest_are_trainer_options(tmp_path):
    path = tmp_path / "base.keras"
    path.write_bytes(b"weights")
    for start_from, expected in (
        (None, (None, "")),
        (str(path), (str(path), hashlib.sha256(b"weights").hexdigest())),
    ):
        nodes, _ = made(tmp_path, start_from=start_from)
        assert "BaseModel" not in nodes
        found = json.loads(nodes["Trainer"].exec_properties["custom_config"])
        assert (found["start_from"], found["start_from_weights"]) == expected


def test_drift_limit_gives_the_gate_the_statistics_blessed_last(tmp_path):
    limits = {"max_drift": 0.2, "max_skew": 0.3, "max_label_share": 0.9}
    nodes, upstream = made(tmp_path, gate=GateOptions(**limits))
    assert "baselinestatistics" in upstream["ValidationGate"]
    options = json.loads(nodes["ValidationGate"].exec_properties["options"])
    assert {name: options[name] for name in limits} == limits
    _, upstream = made(tmp_path, gate=GateOptions(max_skew=0))
    assert "baselinestatistics" not in upstream["ValidationGate"]


def test_kserve_without_storage_is_refused(tmp_path):
    with pytest.raises(UsageError, match=r"^kserve.storage must say what KServe calls the folder"):
        made(tmp_path, kserve=KServeOptions(name="taxi"))
    options = KServeOptions(name="taxi", folder="gs://models/taxi", canary_percent=10)
    assert made(tmp_path, kserve=options)[1]["KServePush"] == ("pusher",)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"last_spans": 2}, "last_spans: pipeline 'mine' has no node Spans; add penstock.recipes"),
        ({"start_from": "blessed"}, "start_from: pipeline 'mine' has no node BaseModel"),
        ({"gate": GateOptions(max_drift=0.2)}, "gate.max_drift: .* has no node BaselineStatistics"),
        (
            {"kserve": KServeOptions(name="x")},
            "kserve.name: pipeline 'mine' has no node KServePush",
        ),
        ({"pack": True}, "pack: pipeline 'mine' has no node Pack"),
        ({"tune": TuneOptions(trials=2)}, "tune.trials: pipeline 'mine' has no node Tuner; add"),
    ],
)
def test_option_without_its_node_is_refused(changes, message):
    with pytest.raises(UsageError, match=message):
        pipeline_of("mine", replace(Config(), **changes), [])


def test_options_outside_their_range_are_refused():
    with pytest.raises(UsageError, match=r"^`last_spans` must be at least 1, got 0$"):
        replace(Config(), last_spans=0)


@pytest.mark.slow
def test_run_without_a_new_span_comes_from_the_cache(penstock, tmp_path):
    from penstock.pipelines.taxi.config import example_data

    with open(f"{example_data()}/data.csv", newline="") as file:
        header, *rows = csv.reader(file)

    def add(span):
        (tmp_path / "data" / str(span)).mkdir(parents=True)
        with (tmp_path / "data" / str(span) / "trips.csv").open("w", newline="") as file:
            csv.writer(file).writerows([header, *rows[span::3]])

    def run():
        sets = (
            f"data={tmp_path}/data/{{SPAN}}/*.csv",
            *("last_spans=2", "start_from=blessed", "train.max_steps=40"),
            "evaluation.max_worsening.BinaryAccuracy=0.5",
        )
        options = [part for text in sets for part in ("--set", text)]
        done = penstock("run", "taxi", "--root", tmp_path / "root", *options, "--json")
        assert done.returncode == 0, done.stderr
        logs = sorted((tmp_path / "root" / "logs").glob("*.log"))
        return json.loads(done.stdout), logs[-1].read_text()

    add(1)
    first, log = run()
    assert first["pushed"]
    assert "warm start" not in log
    add(2)
    second, log = run()
    # The second span changes the vocabularies, so both embeddings start from random weights.
    assert f"warm start: 6 of 8 weights are those of {first['model']}/Format-Serving" in log
    assert second["data"]["account"]["read"] == len(rows[2::3])
    trained = sorted((tmp_path / "root/pipeline/Trainer/model_run").iterdir(), key=int_of)
    seen = json.loads((trained[-1] / "training.json").read_text())["input_rows"]
    spans = [one["data"]["account"]["written"]["train"] for one in (first, second)]
    assert seen == sum(spans)
    third, _ = run()
    assert {node["state"] for node in third["nodes"]} == {"cached", "done"}
    assert [n["node"] for n in third["nodes"] if n["state"] == "done"] == [
        *("Spans", "BaseModel", "Baseline"),
    ]
