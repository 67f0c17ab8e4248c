"""Reads an ExampleValidator's anomalies, as protos or as plain values."""

import posixpath
from collections.abc import Mapping
from dataclasses import dataclass

from tensorflow_metadata.proto.v0 import anomalies_pb2

from penstock.components.errors import DataError
from penstock.components.tfrecord.sharding import split_of

ANOMALIES_FILE = "SchemaDiff.pb"
DATA_SET = "the data set"


@dataclass(frozen=True)
class Anomaly:
    split: str
    # Name of the feature; `DATA_SET` if the anomaly is about the whole data set.
    feature: str
    # Whether TFDV's severity is ERROR; the `ValidationGate` stops a run only for such anomalies.
    is_error: bool
    title: str
    text: str


def read_anomalies(uri: str) -> dict[str, anomalies_pb2.Anomalies]:
    from tfx.dsl.io import fileio  # imported here: checks on protos need no TFX

    by_split = {}
    try:
        for name in sorted(name.rstrip("/") for name in fileio.listdir(uri)):
            if (split := split_of(name)) is not None:
                with fileio.open(posixpath.join(uri, name, ANOMALIES_FILE), "rb") as file:
                    by_split[split] = anomalies_pb2.Anomalies.FromString(file.read())
    except OSError as error:
        raise DataError(f"{uri}: the anomalies are not there") from error
    return by_split


def list_anomalies(by_split: Mapping[str, anomalies_pb2.Anomalies]) -> list[Anomaly]:
    """Lists the anomalies of each split: those of features, by name, then those of the data set."""
    found = []
    for split, anomalies in by_split.items():
        features = sorted(anomalies.anomaly_info.items())
        if anomalies.HasField("dataset_anomaly_info"):
            features.append((DATA_SET, anomalies.dataset_anomaly_info))
        for feature, info in features:
            is_error = info.severity == anomalies_pb2.AnomalyInfo.ERROR
            text = " ".join((info.description or info.short_description).split())
            found.append(Anomaly(split, feature, is_error, info.short_description, text))
    return found
