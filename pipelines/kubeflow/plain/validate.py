"""Validation of an Examples folder without a pipeline.

In: shards of `tf.train.Example` below `Split-*/`, with or without a manifest, and optionally a
schema and the statistics of earlier data. Out: the results of StatisticsGen, SchemaGen,
ExampleValidator and ValidationGate.
"""

import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import tensorflow_data_validation as tfdv
from apache_beam.options.pipeline_options import PipelineOptions
from tensorflow_metadata.proto.v0 import anomalies_pb2, schema_pb2, statistics_pb2
from tfx.components.example_validator.executor import DEFAULT_FILE_NAME as ANOMALIES_FILE
from tfx.components.statistics_gen.executor import DEFAULT_FILE_NAME as STATISTICS_FILE

from penstock.components.doctor.verify import verify
from penstock.components.engine.options import local_beam_args
from penstock.components.errors import DataError
from penstock.components.gates.anomalies import list_anomalies
from penstock.components.gates.checks import find_problems, raise_unfit
from penstock.components.gates.leakage import leak_lines
from penstock.components.gates.options import GateOptions
from penstock.components.tfrecord.manifest import MANIFEST_NAME, Manifest, read_manifest
from penstock.components.tfrecord.schema_features import parse_schema
from penstock.components.tfrecord.sharding import split_dir, split_of
from penstock.pipelines.reporting.feature_facts import statistics_facts
from penstock.pipelines.reporting.page import render_parts, render_section


@dataclass(frozen=True)
class Validation:
    """Result of a validation; each list of statistics has one data set, each problem one line."""

    statistics: Mapping[str, statistics_pb2.DatasetFeatureStatisticsList]
    schema: schema_pb2.Schema
    anomalies: Mapping[str, anomalies_pb2.Anomalies]
    problems: tuple[str, ...]

    @property
    def rows(self) -> dict[str, int]:
        """Rows of each split."""
        return {name: int(s.datasets[0].num_examples) for name, s in self.statistics.items()}

    def raise_problems(self) -> None:
        """Raises a DataError that lists the problems, if there are any."""
        raise_unfit("the data is", self.problems)


def validate_examples(
    folder: Path,
    options: GateOptions,
    *,
    schema_text: str | None = None,
    baseline: Path | None = None,
    workers: int = 1,
    report: Callable[[str], None] = lambda _: None,
) -> Validation:
    """Verifies every byte of an Examples folder, then validates all rows of each split."""
    given = parse_schema(schema_text, "the schema") if schema_text else None
    # Examples that another ExampleGen wrote have no manifest.
    manifest = read_manifest(folder) if (folder / MANIFEST_NAME).exists() else None
    shards = _shards(folder, manifest)
    report(f"checking the bytes of {sum(map(len, shards.values()))} shards")
    verify(str(folder)).raise_faults()
    statistics = {}
    for split, files in shards.items():
        report(f"statistics of split {split!r}")
        statistics[split] = _statistics(files, workers)
    schema = given or _infer(statistics)
    anomalies = {
        split: tfdv.validate_statistics(found, schema)
        for split, found in statistics.items()
        if found.datasets[0].num_examples
    }
    now = {split: found.datasets[0] for split, found in statistics.items()}
    before = _read_statistics(baseline) if baseline else None
    problems = find_problems(now, anomalies, manifest, options, before)
    leaks = leak_lines(str(folder), list(now), options) if all(shards.values()) else []
    for line in leaks:
        report(f"leakage: {line}")
    problems += leaks if options.leakage == "stop" else []
    return Validation(statistics, schema, anomalies, tuple(problems))


def keep_validation(validation: Validation, folder: Path, *, schema: Path, page: Path) -> None:
    """Writes statistics and anomalies into a new folder, the schema and an HTML page into files.

    The folder is laid out as TFX's artifacts: `Split-*/FeatureStats.pb` and `SchemaDiff.pb`.
    """
    for split, statistics in validation.statistics.items():
        below = folder / split_dir(split)
        below.mkdir(parents=True)
        (below / STATISTICS_FILE).write_bytes(statistics.SerializeToString())
        if split in validation.anomalies:
            anomalies = validation.anomalies[split].SerializeToString()
            (below / ANOMALIES_FILE).write_bytes(anomalies)
    tfdv.write_schema_text(validation.schema, str(schema))
    page.write_text(_page(validation), encoding="utf-8")


def _read_statistics(folder: Path) -> dict[str, statistics_pb2.DatasetFeatureStatistics]:
    return {
        str(split_of(file.parent.name)): tfdv.load_stats_binary(str(file)).datasets[0]
        for file in sorted(folder.glob(f"{split_dir('*')}/{STATISTICS_FILE}"))
    }


def _shards(folder: Path, manifest: Manifest | None) -> dict[str, list[str]]:
    if manifest is not None:
        return {
            split: [str(folder / shard.file) for shard in shards]
            for split, shards in manifest.splits.items()
        }
    found = {
        str(split_of(path.name)): [
            str(file) for file in sorted(path.iterdir()) if not file.name.startswith((".", "_"))
        ]
        for path in sorted(folder.glob(split_dir("*")))
    }
    if not found:
        raise DataError(
            f"{folder}: no Examples folder, it has neither {MANIFEST_NAME} nor {split_dir('*')}; "
            "make one with penstock ingest"
        )
    return found


def _page(validation: Validation) -> str:
    datasets = {split: found.datasets[0] for split, found in validation.statistics.items()}
    anomalies = list_anomalies(validation.anomalies)
    return render_parts(
        [
            render_section("problems.html", problems=validation.problems),
            render_section("anomalies.html", anomalies=anomalies),
            render_section("features.html", statistics=statistics_facts(datasets), labels=()),
        ]
    )


def _statistics(files: list[str], workers: int) -> statistics_pb2.DatasetFeatureStatisticsList:
    if not files:
        empty = statistics_pb2.DatasetFeatureStatisticsList()
        empty.datasets.add()
        return empty
    options = PipelineOptions(flags=local_beam_args(workers))
    with tempfile.TemporaryDirectory() as folder:
        return tfdv.generate_statistics_from_tfrecord(
            files, f"{folder}/statistics.tfrecord", pipeline_options=options
        )


def _infer(
    statistics: Mapping[str, statistics_pb2.DatasetFeatureStatisticsList],
) -> schema_pb2.Schema:
    schema: schema_pb2.Schema | None = None
    for found in statistics.values():
        if not found.datasets[0].num_examples:
            continue
        schema = (
            tfdv.infer_schema(found, infer_feature_shape=True)
            if schema is None
            else tfdv.update_schema(schema, found)
        )
    return schema if schema is not None else schema_pb2.Schema()
