"""The cost of evaluating a row: TFX's Evaluator and ours, two sizes, with and without a baseline.

Claim: 12 us of CPU a row more, where TFX's own takes 500 and more.

The taxi pipeline's model, evaluation split, metrics and 32 slices; the split is read several times
over for the larger size. Each run is the executor in a process of its own, imports apart; the model
is loaded, predicted with, and all files are written. With a baseline the model is compared with
itself. The cost of a row more is the difference of the two sizes, by their rows.

    python benchmarks/evaluator.py                 about 6 minutes
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

from penstock.benchmarks.harness import Measured, in_turn, measure
from penstock.benchmarks.make_once import make_once
from penstock.benchmarks.questions import data_folder

STOCK, OURS = "TFX's Evaluator", "Penstock"


def run_taxi(root: Path) -> None:
    """The pipeline that the model and the examples are from."""
    penstock = str(Path(sys.executable).with_name("penstock"))
    subprocess.run([penstock, "run", "taxi", "--root", str(root)], check=True, capture_output=True)


def evaluate(name: str, taxi: Path, copies: int, *, baseline: bool) -> Measured:
    """One execution of the node's executor."""
    from tfx.components.evaluator import executor
    from tfx.components.util import examples_utils
    from tfx.proto import example_gen_pb2
    from tfx.types import standard_artifacts as kinds

    from penstock.components.engine.options import local_beam_args
    from penstock.components.evaluator.component import Executor
    from penstock.components.tfrecord.manifest import read_manifest
    from penstock.pipelines.taxi.config import TaxiConfig
    from penstock.pipelines.taxi.pipeline import create_pipeline

    def artifact(kind: Any, path: Path) -> Any:
        made = kind()
        made.uri = str(path)
        return made

    [model] = (taxi / "pipeline/Trainer/model").iterdir()
    [source] = (taxi / "pipeline/ShardedExampleGen/examples").iterdir()
    shards = [source / shard.file for shard in read_manifest(source).splits["eval"]] * copies
    rows = sum(shard.rows for shard in read_manifest(source).splits["eval"]) * copies
    kind = executor.Executor if name == STOCK else Executor
    run = kind(kind.Context(beam_pipeline_args=local_beam_args()))
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as folder:
        split = Path(folder, "examples/Split-eval")
        split.mkdir(parents=True)
        for index, shard in enumerate(shards):
            (split / f"data_tfrecord-{index:05d}").symlink_to(shard)
        examples = artifact(kinds.Examples, split.parent)
        examples.split_names = '["eval"]'
        examples_utils.set_payload_format(examples, example_gen_pb2.FORMAT_TF_EXAMPLE)
        inputs = {"examples": [examples], "model": [artifact(kinds.Model, model)]}
        if baseline:
            inputs["baseline_model"] = inputs["model"]
        outputs = {
            "evaluation": [artifact(kinds.ModelEvaluation, Path(folder, "evaluation"))],
            "blessing": [artifact(kinds.ModelBlessing, Path(folder, "blessing"))],
        }
        nodes = {node.id: node for node in create_pipeline(TaxiConfig()).components}
        options = nodes["Evaluator"].exec_properties

        def work() -> int:
            run.Do(inputs, outputs, options)
            return rows

        return measure(work)


def report(results: dict[str, Measured], *, as_json: bool) -> None:
    """CPU of each run, and of a row more."""
    if as_json:
        print(json.dumps({name: asdict(result) for name, result in results.items()}, indent=1))
        return
    print(f"the taxi model evaluated, {len(os.sched_getaffinity(0))} cores\n")
    print(f"{'':34} {'rows':>8} {'CPU s':>7} {'CPU us/row':>11} {'us a row more':>14}")
    for name, result in results.items():
        what = name.rpartition(", x")[0]
        first = next(r for n, r in results.items() if n.startswith(f"{what}, x"))
        line = f"{what:34} {result.rows:8,} {result.cpu_seconds:7.1f} "
        line += f"{result.cpu_seconds / result.rows * 1e6:11.1f}"
        if result.rows > first.rows:
            more = (result.cpu_seconds - first.cpu_seconds) / (result.rows - first.rows)
            line += f" {more * 1e6:14.1f}"
        print(line)


def main() -> None:
    """Run the benchmark, or, as a child of it, one contender."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--copies", type=int, default=24, help="of the split, for the larger size")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--contender", help=argparse.SUPPRESS)
    args = parser.parse_args()
    taxi = data_folder() / "evaluator-taxi"
    if args.contender:
        what, _, copies = args.contender.rpartition(", x")
        name, _, baseline = what.partition(", ")
        print(json.dumps(asdict(evaluate(name, taxi, int(copies), baseline=bool(baseline)))))
        return
    make_once(taxi, run_taxi)
    contenders: list[tuple[str, list[str]]] = [
        (f"{name}{baseline}, x{copies}", [])
        for name in (STOCK, OURS)
        for baseline in ("", ", with a baseline")
        for copies in (1, args.copies)
    ]
    report(in_turn(__file__, contenders, args.rounds), as_json=args.json)


if __name__ == "__main__":
    main()
