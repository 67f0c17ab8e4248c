"""Rows that are lost inside a run of real TFX nodes stop it, whichever node loses them."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import apache_beam as beam
import psutil
import pytest
import tensorflow as tf
import tensorflow_model_analysis as tfma
from shared_runs import small_pipeline
from tensorflow_data_validation.statistics import stats_impl
from tfx.components import SchemaGen, StatisticsGen, Trainer, Transform
from tfx.dsl.compiler.compiler import Compiler
from tfx.dsl.component.experimental.annotations import InputArtifact, OutputArtifact, Parameter
from tfx.dsl.component.experimental.decorators import component
from tfx.proto import trainer_pb2
from tfx.proto.orchestration import execution_result_pb2
from tfx.types import standard_artifacts
from tfx.types.standard_artifacts import Examples, Model
from tfx.utils import io_utils

from penstock.components.batches.shards import shard_tasks
from penstock.components.errors import DataError
from penstock.components.evaluator import component as evaluator_node
from penstock.components.evaluator.component import BatchEvaluator
from penstock.components.example_gen.component import ShardedExampleGen
from penstock.components.example_gen.options import IngestOptions
from penstock.components.packing.component import Pack
from penstock.components.tfrecord.manifest import read_manifest
from penstock.components.tfrecord.records import read_records
from penstock.components.tfrecord.sharding import ShardOptions
from penstock.pipelines.kubeflow.node import launch_node
from penstock.pipelines.local.runner import run_locally
from penstock.pipelines.runs import row_check
from penstock.pipelines.runs.launch import State
from penstock.pipelines.runs.ledger import ROWS_PROPERTY, rows_of
from penstock.pipelines.runs.metadata_store import SqliteStore, open_store
from penstock.pipelines.runs.run_record import all_runs, plain_properties
from penstock.pipelines.terminal.failures import NodeFailedError
from penstock.pipelines.terminal.progress import Progress

pytestmark = pytest.mark.slow

ROWS = 240
FUNCTIONS = """
def preprocessing_fn(inputs):
    return {"x_xf": inputs["x"], "label_xf": inputs["label"]}


def run_fn(fn_args):
    raise AssertionError("the Trainer read a shard that was cut")
"""


@component
def Cut(examples: InputArtifact[Examples], done: OutputArtifact[Model]):  # noqa: N802
    """Removes the whole last record of a shard."""
    [shard, *_] = sorted(Path(examples.uri, "Split-train").glob("*-of-*"))
    *kept, _ = [record.payload for record in read_records(str(shard))]
    compression = "GZIP" if shard.suffix == ".gz" else ""
    with tf.io.TFRecordWriter(str(shard), tf.io.TFRecordOptions(compression)) as writer:
        for payload in kept:
            writer.write(payload)
    Path(done.uri, "done").touch()


@component
def MakeModel(model: OutputArtifact[Model]):  # noqa: N802
    class Half(tf.Module):
        @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="examples")])
        def serve(self, examples):
            return {"outputs": tf.fill([tf.shape(examples)[0], 1], 0.5)}

    half = Half()
    folder = str(Path(model.uri, "Format-Serving"))
    tf.saved_model.save(half, folder, signatures={"serving_default": half.serve})


@component
def KeepSome(  # noqa: N802
    examples: InputArtifact[Examples], kept: OutputArtifact[Examples], reason: Parameter[str]
):
    first = sorted(Path(examples.uri, "Split-train").iterdir())[0]
    target = Path(kept.uri, "Split-train", first.name)
    target.parent.mkdir()
    shutil.copy(first, target)
    kept.split_names = '["train"]'
    if reason:
        kept.set_string_custom_property("rows_differ", reason)


class Nodes:
    """A pipeline in a folder: the nodes that all tests run, and nodes that a test adds."""

    def __init__(self, root):
        self.root = root
        options = IngestOptions(shards=ShardOptions(shards=8))
        self.example_gen = ShardedExampleGen(str(root / "data"), ingest=options)
        self.examples = self.example_gen.outputs["examples"]
        self.statistics_gen = StatisticsGen(examples=self.examples)
        self.schema_gen = SchemaGen(statistics=self.statistics_gen.outputs["statistics"])
        self.transform = Transform(
            examples=self.examples,
            schema=self.schema_gen.outputs["schema"],
            preprocessing_fn="ledger_functions.preprocessing_fn",
            disable_statistics=True,
            disable_analyzer_cache=True,
        )
        self.transformed = self.transform.outputs["transformed_examples"]
        self.first = [self.example_gen, self.statistics_gen, self.schema_gen]

    def pipeline(self, *nodes):
        return small_pipeline("rows", self.root, *self.first, *nodes)

    def run(self, *nodes):
        run_locally(self.pipeline(*nodes), Progress())

    def failure_of(self, *nodes):
        with pytest.raises(NodeFailedError) as error:
            self.run(*nodes)
        return str(error.value)

    def stated(self):
        """The numbers of rows that each node of the newest run states, by node and output."""
        with open_store(SqliteStore(str(self.root / "metadata.sqlite"))) as handle:
            run = next(all_runs(handle.store))
        return {
            (node.node, artifact.type): rows
            for node in run.nodes
            for artifact in node.outputs
            if (rows := rows_of(plain_properties(artifact)))
        }


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """A folder with ingested data and its statistics, which all tests reuse from the cache."""
    root = tmp_path_factory.mktemp("rows")
    (root / "ledger_functions.py").write_text(FUNCTIONS)
    (root / "data").mkdir()
    rows = "".join(f"{i}.5,{i % 2}\n" for i in range(ROWS))
    (root / "data" / "a.csv").write_text(f"x,label\n{rows}")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(root)
        Nodes(root).run()
        yield root


@pytest.fixture
def nodes(root):
    return Nodes(root)


@pytest.fixture(scope="module")
def ingested(root):
    [folder] = (root / "pipeline/ShardedExampleGen/examples").iterdir()
    return folder


@pytest.fixture(scope="module")
def split_rows(ingested):
    return dict(read_manifest(ingested).account.written)


def test_statistics_of_a_third_of_the_rows_stop_the_run(nodes, split_rows, monkeypatch):
    stock = stats_impl.GenerateStatisticsImpl.expand

    def of_some(self, batches):
        return stock(self, batches | "Slice" >> beam.Map(lambda b: b.slice(0, len(b) // 3)))

    monkeypatch.setattr(stats_impl.GenerateStatisticsImpl, "expand", of_some)
    again = StatisticsGen(examples=nodes.examples).with_id("Again")
    failure = nodes.failure_of(again)
    assert failure.startswith("node 'Again' failed: split 'train': ")
    assert f" rows came out of {split_rows['train']:,} that went in" in failure


def some_shards(count):
    """A function that returns a pattern for only the first `count` shards of a split's folder."""
    return lambda uri: f"{uri}/*-0000[0-{count - 1}]-of-*"


def test_a_transform_of_three_shards_of_eight_stops_the_run(nodes, split_rows, monkeypatch):
    monkeypatch.setattr(io_utils, "all_files_pattern", some_shards(3))
    failure = nodes.failure_of(nodes.transform)
    assert failure.startswith("node 'Transform' failed: split '")
    assert any(f" rows came out of {rows:,} that" in failure for rows in split_rows.values())


@pytest.mark.parametrize("reader", ["Trainer", "Pack"])
def test_a_transformed_shard_that_is_cut_stops_its_reader(nodes, reader):
    cut = Cut(examples=nodes.transformed)
    read = Pack(nodes.transformed)
    if reader == "Trainer":
        read = Trainer(
            run_fn="ledger_functions.run_fn",
            examples=nodes.transformed,
            train_args=trainer_pb2.TrainArgs(),
            eval_args=trainer_pb2.EvalArgs(),
        )
    read.add_upstream_node(cut)
    failure = nodes.failure_of(nodes.transform, cut, read)
    assert failure.startswith(f"node '{reader}' failed: ")
    assert "the manifest says" in failure


@pytest.mark.parametrize("reader", ["StatisticsGen", "Transform", "BatchEvaluator"])
def test_an_ingested_shard_that_is_cut_stops_the_nodes_of_tfx(nodes, reader):
    make, cut = MakeModel(), Cut(examples=nodes.examples)
    cut.add_upstream_node(nodes.schema_gen)
    read = {
        "StatisticsGen": lambda: StatisticsGen(examples=nodes.examples),
        "Transform": lambda: nodes.transform,
        "BatchEvaluator": lambda: evaluator(nodes, make),
    }[reader]().with_id("Again")
    read.add_upstream_node(cut)
    failure = nodes.failure_of(cut, *([make] if reader == "BatchEvaluator" else []), read)
    assert failure.startswith("node 'Again' failed: ")
    assert "the manifest says" in failure


def evaluator(nodes, make):
    return BatchEvaluator(
        examples=nodes.examples,
        model=make.outputs["model"],
        eval_config=tfma.EvalConfig(
            model_specs=[tfma.ModelSpec(label_key="label")],
            slicing_specs=[tfma.SlicingSpec()],
            metrics_specs=tfma.metrics.specs_from_metrics([tfma.metrics.ExampleCount()]),
        ),
    )


def test_an_evaluation_of_two_shards_of_eight_blesses_nothing(nodes, split_rows, monkeypatch):
    monkeypatch.setattr(evaluator_node, "shard_tasks", lambda *split: shard_tasks(*split)[:2])
    make = MakeModel()
    failure = nodes.failure_of(make, evaluator(nodes, make))
    assert failure.startswith("node 'BatchEvaluator' failed: split 'eval': ")
    assert f" rows came out of {split_rows['eval']:,} that went in" in failure
    assert not list((nodes.root / "pipeline/BatchEvaluator/evaluation").iterdir())


def test_a_whole_run_states_equal_rows_and_lists_transformed_shards(nodes, split_rows):
    make, pack = MakeModel(), Pack(nodes.transformed)
    nodes.run(nodes.transform, pack, make, evaluator(nodes, make))
    stated = nodes.stated()
    assert {place: dict(rows.written) for place, rows in stated.items()} == {
        ("ShardedExampleGen", "Examples"): split_rows,
        ("StatisticsGen", "ExampleStatistics"): split_rows,
        ("Transform", "Examples"): split_rows,
        ("Transform", "TransformGraph"): {},
        ("Pack", "Examples"): split_rows,
        ("BatchEvaluator", "ModelEvaluation"): {"eval": split_rows["eval"]},
    }
    assert not any(rows.reasons for rows in stated.values())
    newest = max((nodes.root / "pipeline/Transform/transformed_examples").iterdir())
    manifest = read_manifest(newest)
    assert dict(manifest.account.written) == split_rows
    assert manifest.compression == "GZIP"


@pytest.mark.parametrize("reason", ["", "the first shard alone, on purpose"])
def test_a_node_that_keeps_some_rows_must_say_why(nodes, split_rows, reason):
    keep = KeepSome(examples=nodes.examples, reason=reason)
    if not reason:
        assert "set the custom property 'rows_differ' of its output" in nodes.failure_of(keep)
        return
    nodes.run(keep)
    rows = nodes.stated()["KeepSome", "Examples"]
    assert rows.read == split_rows
    assert rows.reasons == dict.fromkeys(split_rows, reason)


def test_a_node_in_a_container_is_held_to_its_rows(nodes):
    ir = Compiler().compile(nodes.pipeline(KeepSome(examples=nodes.examples, reason="")))
    store = SqliteStore(str(nodes.root / "metadata.sqlite"))
    for node in ("ShardedExampleGen", "StatisticsGen", "SchemaGen"):
        assert launch_node(ir, node, run_id="container", store=store).state is State.CACHED
    with pytest.raises(NodeFailedError, match=r"^node 'KeepSome' failed: split 'train'"):
        launch_node(ir, "KeepSome", run_id="container", store=store)


def info_of(examples, kind, output, **options):
    """Checks a node with one output, as after its execution; returns the rows that it states."""
    given, made = standard_artifacts.Examples(), kind()
    given.uri, made.uri = str(examples), str(output)
    info = SimpleNamespace(
        input_dict={"examples": [given]}, output_dict={"out": [made]}, exec_properties=options
    )
    row_check.hold_rows(info, execution_result_pb2.ExecutorOutput())
    return json.loads(made.get_string_custom_property(ROWS_PROPERTY))


def examples_of(folder, **splits):
    """A folder of Examples without a manifest, with the given number of rows by split."""
    record = tf.train.Example().SerializeToString()
    for split, rows in splits.items():
        (folder / f"Split-{split}").mkdir(parents=True)
        shard = folder / f"Split-{split}" / "data_tfrecord-00000-of-00001"
        with tf.io.TFRecordWriter(str(shard)) as writer:
            for _ in range(rows):
                writer.write(record)
    return folder


@pytest.mark.parametrize(
    ("read", "written", "options", "reasons"),
    [
        (
            {"train": 10, "eval": 4},
            {"eval": 4},
            {"data_spec": '{"example_splits": ["eval"]}'},
            {"train": "not asked for"},
        ),
        ({"train": 10, "eval": 0}, {"train": 10}, {}, {}),
    ],
)
def test_split_that_is_not_asked_for_or_empty_is_no_loss(tmp_path, read, written, options, reasons):
    given, made = examples_of(tmp_path / "given", **read), examples_of(tmp_path / "made", **written)
    stated = info_of(given, standard_artifacts.Examples, made, **options)
    assert (stated["written"], stated["reasons"]) == (written, reasons)


@pytest.mark.parametrize("lost", [0, 3])
def test_a_training_pass_of_fewer_rows_stops_the_run(
    ingested, split_rows, tmp_path, monkeypatch, lost
):
    (tmp_path / "training.json").touch()
    rows = split_rows["train"] - lost
    record = SimpleNamespace(input_rows=rows)
    monkeypatch.setattr(row_check, "read_training_record", lambda uri: record)
    if not lost:
        stated = info_of(ingested, standard_artifacts.ModelRun, tmp_path)
        assert stated["read"] == stated["written"] == {"train": rows}
        return
    with pytest.raises(DataError, match=f"^split 'train': {rows} rows came out of {rows + lost} "):
        info_of(ingested, standard_artifacts.ModelRun, tmp_path)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"exclude_splits": '["eval"]'}, "excluded"),
        ({"stats_options_json": '{"_sample_rate": 0.5}'}, "a sample of 0.5"),
        ({"sample_rate_by_split": '{"eval": 0.25}'}, "a sample of 0.25"),
    ],
)
def test_statistics_of_fewer_rows_are_right_where_an_option_says_so(
    ingested, split_rows, tmp_path, runs_in, options, reason
):
    runs_in.write_statistics(tmp_path, "train", split_rows["train"])
    runs_in.write_statistics(tmp_path, "eval", split_rows["eval"] // 2)
    stated = info_of(ingested, standard_artifacts.ExampleStatistics, tmp_path, **options)
    assert stated["reasons"] == {"eval": reason}


@pytest.mark.parametrize(
    ("kind", "splits", "why"),
    [
        (standard_artifacts.Examples, ["train", "eval"], "its files are Parquet"),
        (standard_artifacts.TransformGraph, ["train", "eval"], "it wrote no rows"),
        (standard_artifacts.ModelRun, ["train"], "its loop is not `train`'s"),
        (standard_artifacts.ModelEvaluation, ["eval"], "it has no unweighted example count"),
    ],
)
def test_output_without_a_count_states_why_the_ledger_lacks_it(tmp_path, kind, splits, why):
    given = examples_of(tmp_path / "given", train=10, eval=4)
    (tmp_path / "made/Split-train").mkdir(parents=True)
    (tmp_path / "made/Split-train/data_parquet-00000-of-00001.parquet").write_bytes(b"PAR1")
    stated = info_of(given, kind, tmp_path / "made")
    assert stated["written"] == {}
    assert sorted(stated["reasons"]) == sorted(splits)
    assert all(reason.startswith(f"not counted: {why}") for reason in stated["reasons"].values())


@component
def Fork(model: OutputArtifact[Model]):  # noqa: N802
    if child := os.fork():
        Path(model.uri, "child").write_text(str(child))


def test_fork_that_returns_from_the_code_of_a_node_does_not_go_on_with_the_run(nodes):
    test = os.getpid()
    nodes.run(Fork())
    if os.getpid() != test:
        os._exit(77)
    [written] = nodes.root.glob("pipeline/Fork/model/*/child")
    _, status = os.waitpid(int(written.read_text()), 0)
    assert os.waitstatus_to_exitcode(status) == 1


@component
def LeaveProcess(model: OutputArtifact[Model]):  # noqa: N802
    left = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    Path(model.uri, "process").write_text(str(left.pid))


def test_process_that_outlives_the_code_of_a_node_holds_neither_the_run_nor_its_folder(nodes):
    nodes.run(LeaveProcess())
    [written] = nodes.root.glob("pipeline/LeaveProcess/model/*/process")
    left = psutil.Process(int(written.read_text()))
    try:
        nodes.run(LeaveProcess())
        assert left.is_running()
    finally:
        left.kill()
        left.wait()


@component
def Leave(model: OutputArtifact[Model], code: Parameter[int]):  # noqa: N802
    Path(model.uri, "half").touch()
    sys.exit(code)


@pytest.mark.parametrize("code", [0, 3])
def test_a_node_that_calls_sys_exit_fails_and_leaves_nothing(nodes, code):
    failure = nodes.failure_of(Leave(code=code))
    assert failure.startswith(f"node 'Leave' failed: the code of the node called sys.exit({code})")
    assert not list((nodes.root / "pipeline/Leave/model").iterdir())
