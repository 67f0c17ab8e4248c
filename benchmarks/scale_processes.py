"""Statistics, analysis and packing in one process and in two: wall and CPU seconds, peak memory.

The trips that the tfx wheel ships, over and over. The start of the two processes is counted, as
each imports what its work needs; imports of the one are not. Wall times say something only where
nothing else runs; CPU times are of all processes.

    python benchmarks/scale_processes.py --times 67        1M rows, some 3 minutes
    python benchmarks/scale_processes.py                   10M rows, some 20 minutes
"""

import argparse
import json
import os
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import asdict
from importlib.resources import files
from pathlib import Path
from typing import Any

from penstock.benchmarks.harness import Measured, in_turn, measure, run_script
from penstock.benchmarks.scale import write_trips

SHARDS = 32
# Processes on two cores at most so many times as fast as one, and so much more CPU.
AIM_FASTER, AIM_CPU = 1.8, 1.1


def prepare(folder: Path, times: int) -> int:
    """Writes `rows`, a manifest of Examples, and `graph`, TFT's; returns how many rows."""
    import penstock
    from penstock.components.example_gen.options import IngestOptions
    from penstock.components.tfrecord.sharding import ShardOptions
    from penstock.sources import Table

    rows = write_trips(folder / "trips.csv", times)
    schema = folder / "schema" / "schema.pbtxt"
    schema.parent.mkdir()
    schema.write_text((files("penstock.schemas.taxi") / schema.name).read_text())
    options = IngestOptions(shards=ShardOptions(shards=SHARDS))
    source = Table(schema_file=str(schema))
    penstock.ingest(str(folder / "trips.csv"), folder / "rows", source=source, options=options)
    analyze(folder, folder / "graph", 1)
    return rows


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


NODES: Mapping[str, Callable[[Path, Path, int], None]] = {
    "statistics": summarize, "analysis": analyze, "packing": pack,
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


def contend(name: str, folder: Path) -> Measured:
    """A node with so many processes, as `statistics 2`."""
    node, workers = name.split()
    from penstock.nodes import BatchStatisticsGen, BatchTransform, Pack  # noqa: F401

    with tempfile.TemporaryDirectory(dir=folder) as output:

        def work() -> int:
            NODES[node](folder, Path(output) / "out", int(workers))
            return 1

        return measure(work)


def main() -> None:
    """Run each node with one process and with two, in turn, and print a table."""
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
            print(json.dumps(asdict(contend(args.contender, args.root))), flush=True)
        # TensorFlow's threads need no end of their own.
        os._exit(0)
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as folder:
        made = ["--prepare", folder, "--times", str(args.times)]
        rows = int(run_script(__file__, made, "making the data").splitlines()[-1])
        contenders = [(f"{node} {n}", ["--root", folder]) for node in NODES for n in (1, 2)]
        runs = in_turn(__file__, contenders, args.rounds)
    print(f"{rows:,} rows in {SHARDS} shards a split; aims: {AIM_FASTER} times as fast, at most "
          f"{AIM_CPU} times the CPU")  # fmt: skip
    for node in NODES:
        one, two = (runs[f"{node} {n}"] for n in (1, 2))
        print(
            f"{node:12}{one.wall_seconds:8.1f} s and {two.wall_seconds:6.1f} s: "
            f"{one.wall_seconds / two.wall_seconds:.2f} times as fast; CPU {one.cpu_seconds:8.1f} "
            f"and {two.cpu_seconds:6.1f} s: {two.cpu_seconds / one.cpu_seconds:.2f} times; "
            f"peak {one.peak_mib:,.0f} and {two.peak_mib:,.0f} MiB"
        )


if __name__ == "__main__":
    main()
