"""What a run takes of earlier ones: the resolvers on their own, compiled, and in whole runs."""

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
        # TFX's own strategy gives both Examples of span 3, whose rows would count twice.
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


def test_resolvers_are_nodes_of_a_compiled_pipeline(tmp_path):
    config = replace(Config(), root=str(tmp_path), last_spans=3, start_from="blessed")
    tasks = {task.node_id: task for task in plan_ir(compile_ir(create_pipeline(config))).tasks}
    assert tasks["Spans"].upstream == ("shardedexamplegen",)
    assert "spans" in tasks["Transform"].upstream
    assert tasks["BaseModel"].upstream == ("transform",)
    assert "basemodel" in tasks["Trainer"].upstream
    assert "servingcheck" in tasks["Pusher"].upstream


def test_base_model_path_and_digest_are_trainer_options(tmp_path):
    (tmp_path / "base.keras").write_bytes(b"weights")

    def options(start_from):
        config = replace(Config(), root=str(tmp_path), start_from=start_from)
        nodes = {node.id: node for node in create_pipeline(config).components}
        assert "BaseModel" not in nodes
        found = json.loads(nodes["Trainer"].exec_properties["custom_config"])
        return found["start_from"], found["start_from_weights"]

    assert options(None) == (None, "")
    path = str(tmp_path / "base.keras")
    assert options(path) == (path, hashlib.sha256(b"weights").hexdigest())


def test_drift_limit_gives_the_gate_the_statistics_blessed_last(tmp_path):
    def gate(**limits):
        pipeline = create_pipeline(
            replace(Config(), root=str(tmp_path), gate=GateOptions(**limits))
        )
        node = next(node for node in pipeline.components if node.id == "ValidationGate")
        (task,) = [
            one for one in plan_ir(compile_ir(pipeline)).tasks if one.node_id == "ValidationGate"
        ]
        return json.loads(node.exec_properties["options"]), "baselinestatistics" in task.upstream

    options, has_baseline = gate(max_drift=0.2, max_skew=0.3, max_label_share=0.9)
    assert has_baseline
    assert (options["max_drift"], options["max_skew"]) == (0.2, 0.3)
    assert options["max_label_share"] == 0.9
    assert not gate(max_skew=0)[1]
    with pytest.raises(UsageError, match=r"^`max_skew` must be within 0..1, got 2$"):
        gate(max_skew=2)


def test_kserve_without_storage_is_refused(tmp_path):
    config = replace(Config(), root="/penstock/taxi", kserve=KServeOptions(name="taxi"))
    with pytest.raises(UsageError, match=r"^kserve.storage must say what KServe calls the folder"):
        create_pipeline(replace(config, root=str(tmp_path)))
    options = replace(config.kserve, folder="gs://models/taxi", canary_percent=10)
    pipeline = create_pipeline(replace(config, root=str(tmp_path), kserve=options))
    tasks = {task.node_id: task for task in plan_ir(compile_ir(pipeline)).tasks}
    assert tasks["KServePush"].upstream == ("pusher",)


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
    # The vocabularies of two spans are others than those of one, so both embeddings begin anew.
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
