"""TFX node that stops the run if the data are unfit for training.

Input: statistics, anomalies and Examples. Output: a verdict for which later nodes wait
(`transform.add_upstream_node(gate)`). The ExampleValidator only records anomalies; this node stops
the run for them.
"""

import json
import os
from typing import Any

from tfx.components.statistics_gen.stats_artifact_utils import load_statistics
from tfx.components.util import examples_utils
from tfx.dsl.component.experimental.annotations import InputArtifact, Parameter
from tfx.dsl.io import fileio
from tfx.proto import example_gen_pb2
from tfx.types import artifact_utils
from tfx.types.standard_artifacts import ExampleAnomalies, Examples, ExampleStatistics

from penstock.components import activity
from penstock.components.gates.anomalies import read_anomalies
from penstock.components.gates.checks import find_problems, raise_unfit
from penstock.components.gates.leakage import leak_lines
from penstock.components.gates.node import Verdict, options_component
from penstock.components.gates.options import GateOptions
from penstock.components.plain import from_json
from penstock.components.tfrecord.manifest import MANIFEST_NAME, Manifest


@options_component(GateOptions)
def ValidationGate(  # noqa: N802 - TFX names a node after its function
    statistics: InputArtifact[ExampleStatistics],
    anomalies: InputArtifact[ExampleAnomalies],
    examples: InputArtifact[Examples],
    options: Parameter[str],
    baseline: InputArtifact[ExampleStatistics] = None,
) -> Verdict:
    """Lets the run continue, or stops it with a list of all problems.

    Args:
        statistics: Output of StatisticsGen.
        anomalies: Output of ExampleValidator.
        examples: Output of any ExampleGen; if it has a manifest, its row counts are checked.
        options: A `GateOptions`.
        baseline: Statistics against which `max_drift` is measured, from a Resolver with
            `LatestBlessedStatisticsStrategy`; without them, drift is not measured.

    Raises:
        DataError: The data are unfit; lists the problems.
    """
    by_split = statistics_by_split(statistics)
    asked = from_json(GateOptions, options)
    problems = find_problems(
        by_split,
        read_anomalies(anomalies.uri),
        _read_manifest(examples),
        asked,
        statistics_by_split(baseline) if baseline is not None else None,
    )
    raise_unfit("the data is", problems)
    is_plain = examples_utils.get_payload_format(examples) == example_gen_pb2.FORMAT_TF_EXAMPLE
    leaks = leak_lines(examples.uri, list(by_split), asked) if is_plain else []
    if asked.leakage == "stop":
        raise_unfit("the data is", leaks)
    for line in leaks:
        activity.tell(f"leakage: {line}", is_milestone=True)
    rows = {split: statistics.num_examples for split, statistics in by_split.items()}
    return {"verdict": json.dumps({"rows": rows, "leakage": leaks})}


def statistics_by_split(statistics: ExampleStatistics) -> dict[str, Any]:
    """Returns the statistics of each split of an artifact."""
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
