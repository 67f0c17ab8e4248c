"""TFX node that stops the run if the data is unfit to train on.

In: statistics, anomalies and Examples. Out: a verdict that later nodes wait for
(`transform.add_upstream_node(gate)`). The ExampleValidator only records anomalies; this node acts
on them.
"""

import json
import os
from collections.abc import Mapping
from typing import Any, TypedDict

from tfx.components.statistics_gen.stats_artifact_utils import load_statistics
from tfx.components.util import examples_utils
from tfx.dsl.component.experimental.annotations import InputArtifact, Parameter
from tfx.dsl.io import fileio
from tfx.proto import example_gen_pb2
from tfx.types import artifact_utils
from tfx.types.standard_artifacts import ExampleAnomalies, Examples, ExampleStatistics

from penstock.components import activity
from penstock.components.batches.shards import sample_split
from penstock.components.gates.anomalies import read_anomalies
from penstock.components.gates.checks import find_problems, raise_unfit
from penstock.components.gates.leakage import GROUP, find_leaks
from penstock.components.gates.options import GateOptions
from penstock.components.gates.options_component import options_component
from penstock.components.plain import from_json
from penstock.components.tfrecord.manifest import MANIFEST_NAME, Manifest


class GateOutputs(TypedDict):
    """Output of the gate: JSON with the rows of each split, and the signs of leakage."""

    verdict: str


@options_component(GateOptions)
def ValidationGate(  # noqa: N802 - TFX names a node after its function
    statistics: InputArtifact[ExampleStatistics],
    anomalies: InputArtifact[ExampleAnomalies],
    examples: InputArtifact[Examples],
    options: Parameter[str],
    baseline: InputArtifact[ExampleStatistics] = None,
) -> GateOutputs:
    """Lets the run go on, or stops it with a list of all that is wrong.

    Args:
        statistics: Output of StatisticsGen.
        anomalies: Output of ExampleValidator.
        examples: Output of any ExampleGen; rows are accounted for if it has a manifest.
        options: A `GateOptions`.
        baseline: Statistics that `max_drift` is measured from, by a Resolver of
            `LatestBlessedStatisticsStrategy`; without any no drift is measured.

    Raises:
        DataError: The data is unfit; lists why.
    """
    by_split = _by_split(statistics)
    asked = from_json(GateOptions, options)
    problems = find_problems(
        by_split,
        read_anomalies(anomalies.uri),
        _read_manifest(examples),
        asked,
        _by_split(baseline) if baseline is not None else None,
    )
    raise_unfit("the data is", problems)
    leaks = _leaks(examples, by_split, asked) if asked.leakage != "off" else []
    rows = {split: statistics.num_examples for split, statistics in by_split.items()}
    return {"verdict": json.dumps({"rows": rows, "leakage": leaks})}


def _leaks(examples: Examples, by_split: Mapping[str, Any], asked: GateOptions) -> list[str]:
    """Returns the signs of leakage, one line each, and reports them; raises them if asked to."""
    if examples_utils.get_payload_format(examples) != example_gen_pb2.FORMAT_TF_EXAMPLE:
        return []
    samples = {split: sample_split(examples.uri, split) for split in by_split}
    lines = [
        leak.text + (f" by group={leak.column}" if leak.remedy == GROUP else "")
        for leak in find_leaks(
            samples, asked.labels, left_out=asked.left_out, group=asked.group, time=asked.time
        )
    ]
    if asked.leakage == "stop":
        raise_unfit("the data is", lines)
    for line in lines:
        activity.tell(f"leakage: {line}", is_milestone=True)
    return lines


def _by_split(statistics: ExampleStatistics) -> dict[str, Any]:
    return {
        split: load_statistics(statistics, split).proto().datasets[0]
        for split in artifact_utils.decode_split_names(statistics.split_names)
    }


def _read_manifest(examples: Examples) -> Manifest | None:
    path = os.path.join(examples.uri, MANIFEST_NAME)
    if not fileio.exists(path):
        return None
    with fileio.open(path, "r") as file:
        return Manifest.from_json(file.read(), path)
