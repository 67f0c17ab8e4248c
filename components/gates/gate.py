"""TFX node that stops the run if the data are unfit for training, and its checks.

Input: statistics, anomalies and Examples. Output: a verdict for which later nodes wait
(`transform.add_upstream_node(gate)`). The ExampleValidator only records violations of the schema.
This node stops the run for them and for other faults: no rows, one class, a missing label, NaN or
infinite values, quarantined rows and, depending on its options, drift and leakage.
"""

import itertools
import json
import math
import os
from collections.abc import Iterator, Mapping, Sequence

from tensorflow_metadata.proto.v0.anomalies_pb2 import Anomalies
from tfx.components.statistics_gen.stats_artifact_utils import load_statistics
from tfx.components.util import examples_utils
from tfx.dsl.component.experimental.annotations import InputArtifact, Parameter
from tfx.dsl.io import fileio
from tfx.proto import example_gen_pb2
from tfx.types import artifact_utils
from tfx.types.standard_artifacts import ExampleAnomalies, Examples, ExampleStatistics

from penstock.components import activity
from penstock.components.errors import DataError, counted
from penstock.components.gates.anomalies import DATA_SET, list_anomalies, read_anomalies
from penstock.components.gates.drift import (
    FeatureStatistics,
    Statistics,
    by_name,
    distances,
    largest_share,
    nan_count,
    present,
)
from penstock.components.gates.leakage import leak_lines
from penstock.components.gates.options import GateOptions, Verdict, options_component
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


def statistics_by_split(statistics: ExampleStatistics) -> dict[str, Statistics]:
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


def raise_unfit(what: str, problems: Sequence[str]) -> None:
    if problems:
        lines = "\n  - ".join(problems)
        raise DataError(
            f"{what} unfit to train on, {counted(len(problems), 'problem')}:\n  - {lines}"
        )


def find_problems(
    statistics: Mapping[str, Statistics],
    anomalies: Mapping[str, Anomalies],
    manifest: Manifest | None,
    options: GateOptions,
    baseline: Mapping[str, Statistics] | None = None,
) -> list[str]:
    """Returns all problems of the data, one line each; empty if the data may be used.

    `manifest` is None for Examples without one; drift is measured against `baseline`.
    """
    problems = [*_row_problems(manifest, options)] if manifest else []
    filled = {split: found for split, found in statistics.items() if found.num_examples}
    for split, found in statistics.items():
        if split not in filled:
            # A split without rows lacks every feature too, so this one line is enough.
            problems.append(f"split '{split}': no rows; expected at least one")
            continue
        problems += _anomaly_problems(split, anomalies.get(split, Anomalies()))
        problems += _number_problems(split, found, options.labels)
        for label in options.labels:
            problems += _label_problems(split, found, label, options.max_label_share)
    for split, found in filled.items():
        if before := (baseline or {}).get(split):
            problems += _far(split, found, before, options.max_drift, "in the baseline's data")
    for first, split in itertools.product([*filled][:1], [*filled][1:]):
        where = f"in split '{first}'"
        problems += _far(split, filled[split], filled[first], options.max_skew, where)
    return problems


def _far(split: str, now: Statistics, before: Statistics, most: float, where: str) -> Iterator[str]:
    for name, distance in distances(before, now) if most < 1 and before.num_examples else ():
        if distance > most:
            yield (
                f"split '{split}', feature '{name}': its values differ by {distance:.2f} from "
                f"those {where}; expected at most {most:g}"
            )


def _row_problems(manifest: Manifest, options: GateOptions) -> Iterator[str]:
    account, most = manifest.account, options.max_quarantined_share
    # If no rows were written at all, `find_problems` already reports each split without rows.
    if sum(account.written.values()) and account.quarantined_share > most:
        where = f"; see {manifest.quarantine}" if manifest.quarantine else ""
        yield (
            f"{account.quarantined} of {account.read - account.blank} rows were quarantined "
            f"({account.quarantined_share:.2%}); expected at most {most:.2%}{where}"
        )


def _anomaly_problems(split: str, anomalies: Anomalies) -> Iterator[str]:
    for one in list_anomalies({split: anomalies}):
        if one.is_error:
            where = DATA_SET if one.feature == DATA_SET else f"feature '{one.feature}'"
            yield f"split '{split}', {where}: {one.text}"


def _number_problems(split: str, statistics: Statistics, labels: Sequence[str]) -> Iterator[str]:
    for name, feature in by_name(statistics).items():
        where, numbers = f"split '{split}', feature '{name}'", feature.num_stats
        if math.isinf(numbers.min) or math.isinf(numbers.max):
            yield f"{where}: has infinite values; expected finite ones"
        not_a_number = nan_count(feature)
        if not_a_number and name not in labels:  # NaN in a label counts as missing
            yield f"{where}: {not_a_number} values are NaN; expected numbers, or none"


def _label_problems(
    split: str, statistics: Statistics, label: str, max_share: float
) -> Iterator[str]:
    where, rows = f"split '{split}', label '{label}'", statistics.num_examples
    feature = by_name(statistics).get(label)
    if feature is None:
        yield f"{where}: is not in the data; expected it in every row"
        return
    missing = rows - (present(feature) - nan_count(feature))
    if missing:
        yield f"{where}: missing in {missing} of {rows} rows; expected it in all"
    if missing < rows and _has_one_value(feature):
        yield f"{where}: has one value in all rows; expected at least two classes"
    elif (share := largest_share(feature)) > max_share:
        yield f"{where}: one value has {share:.2%} of the rows; expected at most {max_share:.2%}"


def _has_one_value(feature: FeatureStatistics) -> bool:
    if feature.HasField("num_stats"):
        return feature.num_stats.min == feature.num_stats.max
    return feature.HasField("string_stats") and feature.string_stats.unique == 1
