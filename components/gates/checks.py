"""Checks data before training: takes statistics, anomalies and manifest, returns problems.

Pure functions over protos. The ExampleValidator finds violations of the schema; these checks find
what a schema cannot express: no rows, one class, a missing label, NaN, quarantined rows, drift.
"""

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence

from tensorflow_metadata.proto.v0 import anomalies_pb2

from penstock.components.errors import DataError, counted
from penstock.components.gates.anomalies import DATA_SET, list_anomalies
from penstock.components.gates.drift import (
    FeatureStatistics,
    Statistics,
    distances,
    feature_name,
    largest_share,
    nan_count,
    present,
)
from penstock.components.gates.options import GateOptions
from penstock.components.tfrecord.manifest import Manifest


def find_problems(
    statistics: Mapping[str, Statistics],
    anomalies: Mapping[str, anomalies_pb2.Anomalies],
    manifest: Manifest | None,
    options: GateOptions,
    baseline: Mapping[str, Statistics] | None = None,
) -> list[str]:
    """Returns all problems of the data, one line each; empty if the data may be used.

    `manifest` is None for Examples from another ExampleGen; drift is measured against `baseline`.
    """
    problems = [*_row_problems(manifest, options)] if manifest else []
    for split, split_statistics in statistics.items():
        if not split_statistics.num_examples:
            # Without rows every feature is missing, too, so this one line is enough.
            problems.append(f"split '{split}': no rows; expected at least one")
            continue
        problems += _anomaly_problems(split, anomalies.get(split))
        problems += _feature_problems(split, split_statistics, options.labels)
        for label in options.labels:
            problems += _label_problems(split, split_statistics, label, options.max_label_share)
    filled = {split: found for split, found in statistics.items() if found.num_examples}
    for split, found in filled.items():
        before = (baseline or {}).get(split)
        if before is not None and before.num_examples:
            problems += _far(split, found, before, options.max_drift, "in the baseline's data")
    for first, split in itertools.product(list(filled)[:1], list(filled)[1:]):
        where = f"in split '{first}'"
        problems += _far(split, filled[split], filled[first], options.max_skew, where)
    return problems


def raise_unfit(what: str, problems: Sequence[str]) -> None:
    if problems:
        lines = "\n  - ".join(problems)
        raise DataError(
            f"{what} unfit to train on, {counted(len(problems), 'problem')}:\n  - {lines}"
        )


def _far(split: str, now: Statistics, before: Statistics, most: float, where: str) -> Iterator[str]:
    for name, distance in distances(before, now) if most < 1 else ():
        if distance > most:
            yield (
                f"split '{split}', feature '{name}': its values differ by {distance:.2f} from "
                f"those {where}; expected at most {most:g}"
            )


def _row_problems(manifest: Manifest, options: GateOptions) -> Iterator[str]:
    account = manifest.account
    if not sum(account.written.values()):
        return  # Each empty split is already a problem of its own.
    share = account.quarantined_share
    if share > options.max_quarantined_share:
        where = f"; see {manifest.quarantine}" if manifest.quarantine else ""
        yield (
            f"{account.quarantined} of {account.read - account.blank} rows were quarantined "
            f"({share:.2%}); "
            f"expected at most {options.max_quarantined_share:.2%}{where}"
        )


def _anomaly_problems(split: str, anomalies: anomalies_pb2.Anomalies | None) -> Iterator[str]:
    for anomaly in list_anomalies({split: anomalies} if anomalies else {}):
        if anomaly.is_error:
            is_whole = anomaly.feature == DATA_SET
            where = DATA_SET if is_whole else f"feature '{anomaly.feature}'"
            yield f"split '{split}', {where}: {anomaly.text}"


def _feature_problems(split: str, statistics: Statistics, labels: Sequence[str]) -> Iterator[str]:
    for feature in statistics.features:
        numbers = feature.num_stats
        if feature.HasField("num_stats") and (math.isinf(numbers.min) or math.isinf(numbers.max)):
            yield (
                f"split '{split}', feature '{feature_name(feature)}': has infinite values; "
                "expected finite ones"
            )
        not_a_number = nan_count(feature)
        if not_a_number and feature_name(feature) not in labels:  # a label's NaN counts as missing
            yield (
                f"split '{split}', feature '{feature_name(feature)}': {not_a_number} values are "
                "NaN; expected numbers, or none"
            )


def _label_problems(
    split: str, statistics: Statistics, label: str, max_share: float
) -> Iterator[str]:
    where = f"split '{split}', label '{label}'"
    feature = next((f for f in statistics.features if feature_name(f) == label), None)
    if feature is None:
        yield f"{where}: is not in the data; expected it in every row"
        return
    missing = statistics.num_examples - (present(feature) - nan_count(feature))
    if missing:
        yield f"{where}: missing in {missing} of {statistics.num_examples} rows; expected it in all"
    if missing < statistics.num_examples and _has_one_value(feature):
        yield f"{where}: has one value in all rows; expected at least two classes"
    elif (share := largest_share(feature)) > max_share:
        yield (f"{where}: one value has {share:.2%} of the rows; expected at most {max_share:.2%}")


def _has_one_value(feature: FeatureStatistics) -> bool:
    if feature.HasField("num_stats"):
        return feature.num_stats.min == feature.num_stats.max
    return feature.HasField("string_stats") and feature.string_stats.unique == 1
