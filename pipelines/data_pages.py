"""Statistics and anomalies of data as plain HTML tables, readable without scripts or network."""

import html
from collections.abc import Iterable, Sequence
from typing import Any

from tensorflow_metadata.proto.v0 import anomalies_pb2, statistics_pb2
from tfx.components.statistics_gen.stats_artifact_utils import load_statistics
from tfx.dsl.io import fileio
from tfx.types import artifact_utils

from penstock.components.gate_checks import feature_name

_STYLE = "body{font:14px sans-serif}td,th{padding:2px 8px;text-align:left;vertical-align:top}"


def page(parts: Iterable[str]) -> str:
    """A whole page of tables."""
    body = "".join(parts) or "<p>Nothing was made: the node was skipped.</p>"
    return f"<!doctype html><meta charset=utf-8><style>{_STYLE}</style>{body}\n"


def statistics_table(artifact: Any) -> str:
    """The statistics of each split: a row a feature."""
    tables = []
    for split in artifact_utils.decode_split_names(artifact.split_names):
        statistics = load_statistics(artifact, split).proto().datasets[0]
        head = ("feature", "type", "present", "missing", "values")
        rows = [_statistics_row(feature) for feature in statistics.features]
        title = f"Split {split}: {int(statistics.num_examples):,} rows"
        tables.append(_table(title, head, rows))
    return "".join(tables)


def anomalies_table(artifact: Any) -> str:
    """The anomalies of each split: a row a feature that has one."""
    tables = []
    for split in artifact_utils.decode_split_names(artifact.split_names):
        folder = artifact_utils.get_split_uri([artifact], split)
        with fileio.open(f"{folder}/SchemaDiff.pb", "rb") as file:
            anomalies = anomalies_pb2.Anomalies.FromString(file.read())
        found = sorted(anomalies.anomaly_info.items())
        rows = [(name, info.short_description, info.description) for name, info in found]
        title = f"Split {split}: {len(rows)} anomalies"
        tables.append(_table(title, ("feature", "anomaly", "description"), rows))
    return "".join(tables)


def _statistics_row(feature: statistics_pb2.FeatureNameStatistics) -> Sequence[str]:
    numeric = feature.WhichOneof("stats") == "num_stats"
    common = (feature.num_stats if numeric else feature.string_stats).common_stats
    kind = statistics_pb2.FeatureNameStatistics.Type.Name(feature.type).lower()
    values = _numbers(feature.num_stats) if numeric else _texts(feature.string_stats)
    return (
        feature_name(feature),
        kind,
        f"{common.num_non_missing:,}",
        f"{common.num_missing:,}",
        values,
    )


def _numbers(stats: statistics_pb2.NumericStatistics) -> str:
    return (
        f"{stats.min:g} to {stats.max:g}, median {stats.median:g}, "
        f"mean {stats.mean:g}, deviation {stats.std_dev:g}, {stats.num_zeros:,} zeros"
    )


def _texts(stats: statistics_pb2.StringStatistics) -> str:
    most = ", ".join(f"{top.value} ({top.frequency:,.0f})" for top in stats.top_values[:3])
    return f"{stats.unique:,} distinct" + (f"; most often {most}" if most else "")


def _table(title: str, head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [f"<tr>{''.join(f'<th>{cell}' for cell in head)}"]
    lines += [f"<tr>{''.join(f'<td>{html.escape(cell)}' for cell in row)}" for row in rows]
    return f"<h2>{html.escape(title)}</h2><table>{''.join(lines)}</table>"
