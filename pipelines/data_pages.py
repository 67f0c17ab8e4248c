"""Statistics and anomalies of data as plain HTML tables, readable without scripts or network."""

import html
from collections.abc import Iterable, Mapping, Sequence
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
    """The statistics of each split of an `ExampleStatistics` artifact: a row a feature."""
    splits = artifact_utils.decode_split_names(artifact.split_names)
    return statistics_tables(
        {split: load_statistics(artifact, split).proto().datasets[0] for split in splits}
    )


def statistics_tables(
    by_split: Mapping[str, statistics_pb2.DatasetFeatureStatistics],
) -> str:
    """A table a split, a row a feature."""
    head = ("feature", "type", "present", "missing", "values")
    return "".join(
        _table(
            f"Split {split}: {int(statistics.num_examples):,} rows",
            head,
            [_statistics_row(feature) for feature in statistics.features],
        )
        for split, statistics in by_split.items()
    )


def anomalies_table(artifact: Any) -> str:
    """The anomalies of each split of an `ExampleAnomalies` artifact: a row a feature with one."""
    by_split = {}
    for split in artifact_utils.decode_split_names(artifact.split_names):
        folder = artifact_utils.get_split_uri([artifact], split)
        with fileio.open(f"{folder}/SchemaDiff.pb", "rb") as file:
            by_split[split] = anomalies_pb2.Anomalies.FromString(file.read())
    return anomalies_tables(by_split)


def anomalies_tables(by_split: Mapping[str, anomalies_pb2.Anomalies]) -> str:
    """A table a split, a row a feature that has an anomaly."""
    tables = []
    for split, anomalies in by_split.items():
        found = sorted(anomalies.anomaly_info.items())
        rows = [(name, info.short_description, info.description) for name, info in found]
        title = f"Split {split}: {len(rows)} anomalies"
        tables.append(_table(title, ("feature", "anomaly", "description"), rows))
    return "".join(tables)


def problems_list(problems: Sequence[str]) -> str:
    """Why data is unfit to train on, a line each."""
    if not problems:
        return "<p>Fit to train on.</p>"
    lines = "".join(f"<li>{html.escape(problem)}" for problem in problems)
    return f"<h2>Unfit to train on: {len(problems)} problem(s)</h2><ul>{lines}</ul>"


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
