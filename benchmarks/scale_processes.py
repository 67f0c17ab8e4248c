"""All stages in tasks, from ingest to evaluation, in one process and in two, stage by stage.

The trips that the tfx wheel ships, over and over, through the nodes' executors, one after the other
as a run has them. Of one process the imports are not counted, as a run needs them anyway; of two,
the start of both with their imports is. CPU is of all processes; "driver" is that of the one that
plans, merges and commits, while the others may have nothing to do. "At most" is what the CPU times
allow on two cores: CPU with one process, divided by that of the driver and half of that of the two.
Wall times say something only where nothing else runs.

    python benchmarks/scale_processes.py --times 67        1M rows, some 3 minutes
    python benchmarks/scale_processes.py                   10M rows, some 20 minutes
"""

import argparse
import json
import os
import resource
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

import psutil

from penstock.benchmarks.harness import peak_mib_now, run_script, runs_in_turn
from penstock.benchmarks.scale import write_trips

SHARDS = 32
# Processes on two cores at most so many times as fast as one, and so much more CPU.
AIM_FASTER, AIM_CPU = 1.8, 1.1


def prepare(folder: Path, times: int) -> int:
    """Writes `rows`, a manifest of Examples, and `graph`, TFT's; returns how many rows."""
    rows = write_trips(folder / "trips.csv", times)
    schema = folder / "schema" / "schema.pbtxt"
    schema.parent.mkdir()
    schema.write_text((files("penstock.schemas.taxi") / schema.name).read_text())
    read(folder, folder / "rows", 1)
    analyze(folder, folder / "graph", 1)
    save_model(folder / "graph", folder / "model" / "Format-Serving")
    return rows


def save_model(graph: Path, folder: Path) -> None:
    """Writes a model of raw Examples: the transform graph, and one layer that is not trained."""
    import tensorflow as tf
    import tensorflow_transform as tft

    transform = tft.TFTransformOutput(str(graph))
    module = tf.Module()
    module.transform = transform.transform_features_layer()

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, "examples")])
    def features(examples: tf.Tensor) -> dict[str, tf.Tensor]:
        parsed = tf.io.parse_example(examples, transform.raw_feature_spec())
        return module.transform(parsed)

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, "examples")])
    def score(examples: tf.Tensor) -> dict[str, tf.Tensor]:
        numbers = features(examples)["numbers_xf"]
        return {"outputs": tf.sigmoid(tf.reduce_sum(numbers, axis=1, keepdims=True))}

    signatures = {"score": score, "transform": features}
    tf.saved_model.save(module, str(folder), signatures=signatures)


def read(folder: Path, output: Path, workers: int) -> None:
    """Ingest of CSV."""
    import penstock
    from penstock.components.example_gen.options import IngestOptions
    from penstock.components.tfrecord.sharding import ShardOptions
    from penstock.sources import Table

    options = IngestOptions(shards=ShardOptions(shards=SHARDS))
    source = Table(schema_file=str(folder / "schema" / "schema.pbtxt"))
    data = str(folder / "trips.csv")
    penstock.ingest(data, output, source=source, options=options, workers=workers)


def summarize(folder: Path, output: Path, workers: int) -> None:
    """BatchStatisticsGen."""
    from tfx.types.standard_artifacts import ExampleStatistics

    from penstock.components.batches.statistics_gen import Executor

    _do(Executor, workers, {"examples": [_examples(folder)]},
        {"statistics": [_artifact(ExampleStatistics, output)]}, exclude_splits="[]")  # fmt: skip


def analyze(folder: Path, output: Path, workers: int) -> None:
    """BatchTransform without transformed Examples."""
    from tfx.types.standard_artifacts import Schema, TransformGraph

    from penstock.components.batches.transform import Executor

    _do(
        Executor,
        workers,
        {"examples": [_examples(folder)], "schema": [_artifact(Schema, folder / "schema")]},
        {"transform_graph": [_artifact(TransformGraph, output)]},
        preprocessing_fn="penstock.pipelines.taxi.preprocessing.preprocessing_fn",
        disable_statistics=1,
        custom_config="null",
    )


def pack(folder: Path, output: Path, workers: int) -> None:
    """Pack of raw Examples by the graph."""
    from tfx.types.standard_artifacts import Examples, TransformGraph

    from penstock.components.packing.component import Executor
    from penstock.components.packing.options import PackOptions
    from penstock.components.plain import to_json

    graph = _artifact(TransformGraph, folder / "graph")
    _do(
        Executor,
        workers,
        {"examples": [_examples(folder)], "transform_graph": [graph]},
        {"packed": [_artifact(Examples, output)]},
        options=to_json(PackOptions()),
        apply_graph=1,
    )


METRICS = """
model_specs {signature_name: "score" label_key: "big_tipper_xf"
             preprocessing_function_names: "transform"}
slicing_specs {} slicing_specs {feature_keys: "trip_start_hour"}
metrics_specs {metrics {class_name: "AUC"} metrics {class_name: "BinaryAccuracy"}}
"""


def evaluate(folder: Path, output: Path, workers: int) -> None:
    """BatchEvaluator, over both splits and in 25 slices."""
    from google.protobuf import text_format
    from tensorflow_model_analysis.proto import config_pb2
    from tfx.types.standard_artifacts import Model, ModelBlessing, ModelEvaluation
    from tfx.utils import proto_utils

    from penstock.components.evaluator.component import Executor

    _do(
        Executor,
        workers,
        {"examples": [_examples(folder)], "model": [_artifact(Model, folder / "model")]},
        {
            "evaluation": [_artifact(ModelEvaluation, output)],
            "blessing": [_artifact(ModelBlessing, folder / "blessing")],
        },
        eval_config=proto_utils.proto_to_json(text_format.Parse(METRICS, config_pb2.EvalConfig())),
        example_splits='["train", "eval"]',
    )


STAGES: Mapping[str, Callable[[Path, Path, int], None]] = {
    "ingest": read, "statistics": summarize, "analysis": analyze, "packing": pack,
    "evaluation": evaluate,
}  # fmt: skip


def _artifact(kind: Any, path: Path) -> Any:
    made = kind()
    made.uri = str(path)
    return made


def _examples(folder: Path) -> Any:
    from tfx.components.util import examples_utils
    from tfx.proto import example_gen_pb2
    from tfx.types.standard_artifacts import Examples

    made = _artifact(Examples, folder / "rows")
    made.split_names = '["train", "eval"]'
    examples_utils.set_payload_format(made, example_gen_pb2.FORMAT_TF_EXAMPLE)
    return made


def _do(
    executor: Any,
    workers: int,
    inputs: dict[str, list[Any]],
    outputs: dict[str, list[Any]],
    **properties: Any,
) -> None:
    from tfx.dsl.components.base.base_beam_executor import BaseBeamExecutor

    from penstock.nodes import local_beam_args

    context = BaseBeamExecutor.Context(beam_pipeline_args=local_beam_args(workers))
    executor(context).Do(inputs, outputs, properties)


def contend(workers: int, folder: Path) -> dict[str, dict[str, float]]:
    """All stages with so many processes: seconds of each, and MiB of the largest process so far."""
    from penstock.components.engine.processes import kept_processes
    from penstock.components.example_gen.ingest import ingest  # noqa: F401
    from penstock.nodes import (  # noqa: F401
        BatchEvaluator,
        BatchStatisticsGen,
        BatchTransform,
        Pack,
    )

    found = {}
    with tempfile.TemporaryDirectory(dir=folder) as output, kept_processes():
        for name, stage in STAGES.items():
            before = _seconds()
            stage(folder, Path(output) / name, workers)
            spent = {key: after - before[key] for key, after in _seconds().items()}
            found[name] = {**spent, "peak": _peak_mib()}
    return found


def _seconds() -> dict[str, float]:
    """Wall time, and CPU time of this process and of its workers, also of ended ones."""
    own, ended = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    running = [child.cpu_times() for child in psutil.Process().children()]
    return {
        "wall": time.perf_counter(),
        "driver": own.ru_utime + own.ru_stime,
        "workers": ended.ru_utime + ended.ru_stime + sum(one.user + one.system for one in running),
    }


def _peak_mib() -> float:
    running = [child.memory_info().rss / 2**20 for child in psutil.Process().children()]
    return max([peak_mib_now(), *running])


def _median(runs: Sequence[Mapping[str, Mapping[str, float]]]) -> dict[str, dict[str, float]]:
    return {
        stage: {key: statistics.median(run[stage][key] for run in runs) for key in spent}
        for stage, spent in runs[0].items()
    }


def _line(name: str, one: Mapping[str, float], two: Mapping[str, float]) -> str:
    """Compares one process with two, which include the process that plans."""
    cpu_one = one["driver"] + one["workers"]
    cpu_two = two["driver"] + two["workers"]
    bound = cpu_one / (two["driver"] + two["workers"] / 2)
    return (
        f"{name:12}{one['wall']:8.1f}{two['wall']:8.1f}{one['wall'] / two['wall']:7.2f}"
        f"{bound:9.2f}{cpu_one:9.1f}{cpu_two:8.1f}{cpu_two / cpu_one:7.2f}{two['driver']:8.1f}"
        f"{one['peak']:8,.0f}{two['peak']:8,.0f}"
    )


def main() -> None:
    """Run all stages with one process and with two, in turn, and print a table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--times", type=int, default=667)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--prepare", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--contender", help=argparse.SUPPRESS)
    parser.add_argument("--root", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.contender or args.prepare:
        if args.prepare:
            print(prepare(args.prepare, args.times), flush=True)
        else:
            print(json.dumps(contend(int(args.contender), args.root)), flush=True)
        # TensorFlow's threads need no end of their own.
        os._exit(0)
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as folder:
        made = ["--prepare", folder, "--times", str(args.times)]
        rows = int(run_script(__file__, made, "making the data").splitlines()[-1])
        contenders = [(workers, ["--root", folder]) for workers in ("1", "2")]
        runs = runs_in_turn(__file__, contenders, args.rounds)
    one, two = (_median(some) for some in runs.values())
    print(f"{rows:,} rows, {SHARDS} shards a split; aims: {AIM_FASTER} times as fast, at most "
          f"{AIM_CPU} times the CPU")  # fmt: skip
    print(f"{'':12}{'wall, s':>16}{'times':>7}{'at most':>9}{'CPU, s':>17}{'times':>7}"
          f"{'driver':>8}{'peak, MiB':>16}")  # fmt: skip
    for stage in STAGES:
        print(_line(stage, one[stage], two[stage]))
    print(_line("all", _total([*one.values()]), _total([*two.values()])))


def _total(stages: Sequence[Mapping[str, float]]) -> dict[str, float]:
    total = {key: sum(stage[key] for stage in stages) for key in stages[0]}
    return {**total, "peak": max(stage["peak"] for stage in stages)}


if __name__ == "__main__":
    main()
