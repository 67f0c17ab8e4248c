"""Statistics and anomalies of data as an HTML page of its own: the sections that a report has."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tensorflow_metadata.proto.v0 import anomalies_pb2, statistics_pb2

from penstock.components.gates.anomalies import read_anomalies
from penstock.pipelines.reporting.anomaly_facts import gather_anomalies
from penstock.pipelines.reporting.feature_facts import read_statistics, statistics_facts
from penstock.pipelines.reporting.page import render_parts, render_section


def page(parts: Iterable[str]) -> str:
    """A whole page of the parts that the functions below give, without scripts or network.

    A node that was skipped has none.
    """
    return render_parts(list(parts))


def statistics_table(artifact: Any) -> str:
    """The statistics of an `ExampleStatistics` artifact: a row a feature."""
    return statistics_tables(read_statistics(artifact.uri))


def statistics_tables(by_split: Mapping[str, statistics_pb2.DatasetFeatureStatistics]) -> str:
    """A row a feature, the splits side by side."""
    return render_section("features.html", statistics=statistics_facts(by_split))


def anomalies_table(artifact: Any) -> str:
    """The anomalies of an `ExampleAnomalies` artifact: a row each."""
    return anomalies_tables(read_anomalies(artifact.uri))


def anomalies_tables(by_split: Mapping[str, anomalies_pb2.Anomalies]) -> str:
    """A row an anomaly."""
    return render_section("anomalies.html", anomalies=gather_anomalies(by_split, None, None))


def problems_list(problems: Sequence[str]) -> str:
    """Why data is unfit to train on, a line each."""
    return render_section("problems.html", problems=problems)
