"""Hand-made runs: a real metadata store, and artifacts in the form that the nodes write."""

import ml_metadata
import pytest
import row_files
import tensorflow as tf
from evaluations import slice_metrics, write_evaluation
from ml_metadata.proto import metadata_store_pb2 as mlmd
from tensorflow_metadata.proto.v0 import anomalies_pb2, statistics_pb2

from penstock.pipelines.runs.run_record import all_runs

STATES = {
    "done": mlmd.Execution.COMPLETE,
    "cached": mlmd.Execution.CACHED,
    "failed": mlmd.Execution.FAILED,
    "running": mlmd.Execution.RUNNING,
}


def write_records(path, payloads):
    path.parent.mkdir(parents=True, exist_ok=True)
    with tf.io.TFRecordWriter(str(path)) as file:
        for payload in payloads:
            file.write(payload)


def example(**features):
    """A serialized Example of single values; `a__b` is the feature a/b."""
    return row_files.example(**{name.replace("__", "/"): [v] for name, v in features.items()})


def write_statistics(folder, split, rows, numbers=(), texts=()):
    """Writes FeatureStats.pb of a split.

    Args:
        folder: Folder of the artifact.
        split: The split.
        rows: Number of rows.
        numbers: (name, missing, minimum, maximum, counts of equal buckets) of each FLOAT feature.
        texts: (name, {value: count}) of each STRING feature.
    """
    found = statistics_pb2.DatasetFeatureStatisticsList()
    data = found.datasets.add(num_examples=rows)
    for name, missing, low, high, counts in numbers:
        feature = data.features.add(name=name, type=statistics_pb2.FeatureNameStatistics.FLOAT)
        stats = feature.num_stats
        stats.common_stats.num_non_missing = rows - missing
        stats.common_stats.num_missing = missing
        stats.min, stats.max, stats.mean = low, high, (low + high) / 2
        width = (high - low) / len(counts)
        for kind in (statistics_pb2.Histogram.STANDARD, statistics_pb2.Histogram.QUANTILES):
            histogram = stats.histograms.add(type=kind)
            for i, count in enumerate(counts):
                histogram.buckets.add(
                    low_value=low + i * width, high_value=low + (i + 1) * width, sample_count=count
                )
    for name, counts in texts:
        feature = data.features.add(name=name, type=statistics_pb2.FeatureNameStatistics.STRING)
        stats = feature.string_stats
        stats.common_stats.num_non_missing = sum(counts.values())
        stats.unique = len(counts)
        for value, count in counts.items():
            stats.top_values.add(value=value, frequency=count)
            stats.rank_histogram.buckets.add(label=value, sample_count=count)
    path = folder / f"Split-{split}" / "FeatureStats.pb"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(found.SerializeToString())


def write_anomalies(folder, split, **texts):
    """Writes SchemaDiff.pb of a split: a description of each feature that has an anomaly."""
    found = anomalies_pb2.Anomalies()
    for name, text in texts.items():
        info = found.anomaly_info[name]
        info.description, info.short_description = text, "Odd values"
        info.severity = anomalies_pb2.AnomalyInfo.ERROR
    path = folder / f"Split-{split}" / "SchemaDiff.pb"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(found.SerializeToString())


class Runs:
    """A metadata store in a folder, to which runs of one pipeline are added."""

    def __init__(self, folder, pipeline="hand"):
        self.folder, self.pipeline = folder, pipeline
        connection = mlmd.ConnectionConfig()
        connection.sqlite.filename_uri = str(folder / "metadata.sqlite")
        connection.sqlite.connection_mode = mlmd.SqliteMetadataSourceConfig.READWRITE_OPENCREATE
        self.store = ml_metadata.MetadataStore(connection)

    example = staticmethod(example)
    write_records = staticmethod(write_records)
    write_statistics = staticmethod(write_statistics)
    write_anomalies = staticmethod(write_anomalies)
    slice_metrics = staticmethod(slice_metrics)
    write_evaluation = staticmethod(write_evaluation)

    def context(self, kind, name):
        known = self.store.get_context_by_type_and_name(kind, name)
        if known is not None:
            return known
        type_id = self.store.put_context_type(mlmd.ContextType(name=kind))
        context = mlmd.Context(type_id=type_id, name=name)
        [context.id] = self.store.put_contexts([context])
        return context

    def artifact(self, kind, uri, **properties):
        type_id = self.store.put_artifact_type(mlmd.ArtifactType(name=kind))
        artifact = mlmd.Artifact(type_id=type_id, uri=str(uri), state=mlmd.Artifact.LIVE)
        _put(artifact.custom_properties, properties)
        [artifact.id] = self.store.put_artifacts([artifact])
        return artifact

    def node(self, run_id, name, state="done", inputs=(), outputs=(), **options):
        """Adds a node to a run; returns its outputs, for the nodes after it."""
        type_id = self.store.put_execution_type(mlmd.ExecutionType(name=f"tfx.{name}"))
        execution = mlmd.Execution(type_id=type_id, last_known_state=STATES[state])
        _put(execution.custom_properties, options)
        pairs = [(a, mlmd.Event(type=mlmd.Event.INPUT, artifact_id=a.id)) for a in inputs]
        pairs += [(a, mlmd.Event(type=mlmd.Event.OUTPUT, artifact_id=a.id)) for a in outputs]
        contexts = [
            self.context("pipeline", self.pipeline),
            self.context("pipeline_run", run_id),
            self.context("node", f"{self.pipeline}.{name}"),
        ]
        self.store.put_execution(execution, pairs, contexts)
        return outputs

    def newest(self):
        """The newest run, and the earlier runs."""
        run, *earlier = all_runs(self.store)
        return run, earlier


def _put(properties, values):
    for name, value in values.items():
        if isinstance(value, int):
            properties[name].int_value = value
        else:
            properties[name].string_value = value


@pytest.fixture(scope="session")
def runs_in():
    """The class `Runs`, which makes a metadata store in a folder."""
    return Runs


@pytest.fixture
def runs(tmp_path):
    return Runs(tmp_path)


@pytest.fixture
def kubeconfig(tmp_path, monkeypatch):
    """A function that makes this process's kubeconfig point to an API server's address."""

    def lead_to(host):
        file = tmp_path / "kubeconfig"
        file.write_text(
            f"""
            current-context: c
            contexts: [{{name: c, context: {{cluster: c, user: u}}}}]
            clusters: [{{name: c, cluster: {{server: "{host}"}}}}]
            users: [{{name: u, user: {{}}}}]
            """
        )
        place = "kubernetes.config.kube_config.KUBE_CONFIG_DEFAULT_LOCATION"
        monkeypatch.setattr(place, str(file))

    return lead_to
