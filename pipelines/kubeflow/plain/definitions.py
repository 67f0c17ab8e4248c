"""The plain components for Kubeflow: one container each, with typed inputs and outputs.

    ingest = make_component("ingest", "registry/penstock@sha256:...")

A pipeline needs neither this package nor TFX: `penstock compile ingest` writes the same as YAML,
for `kfp.components.load_component_from_file`.
"""
# kfp 2.5 accepts only types of the typing module, copies defaults, documents outputs as returns.
# ruff: noqa: UP006, UP035, B006, D417

import functools
from pathlib import Path
from typing import Any, Dict, List

from kfp import compiler, dsl
from kfp.dsl import HTML, Artifact, Dataset, Input, Metrics, Output, OutputPath

from penstock.components.errors import UsageError
from penstock.components.example_gen.options import SplitOptions
from penstock.components.files.commit import attempt_file
from penstock.pipelines.kubeflow.compiled_file import check_image, check_yaml
from penstock.pipelines.kubeflow.pipeline_yaml import EXECUTOR_INPUT

_SPLITS = {split.name: split.hash_buckets for split in SplitOptions.splits}


def make_component(name: str, image: str) -> Any:
    """Returns a component of `DEFINITIONS` that a `dsl.pipeline` can call; it runs in the image.

    Raises:
        UsageError: The component does not exist.
    """
    if name not in DEFINITIONS:
        raise UsageError(f"no component {name!r}; choices: {', '.join(DEFINITIONS)}")
    container = dsl.ContainerSpec(
        image=image, command=["penstock", "component", name], args=[EXECUTOR_INPUT]
    )
    definition: Any = DEFINITIONS[name]
    component: Any = functools.wraps(definition)(lambda *_, **__: container)
    return dsl.container_component(component)


def write_component(name: str, out: Path, *, image: str, allow_mutable_tag: bool = False) -> None:
    """Write a component to a YAML file, which appears whole or not at all.

    Raises:
        UsageError: The component does not exist, or the image's tag may move.
    """
    check_image(image, allow_mutable_tag)
    check_yaml(out)
    with attempt_file(out) as file:
        compiler.Compiler().compile(make_component(name, image), str(file))


def ingest(
    examples: Output[Dataset],
    metrics: Output[Metrics],
    data: Input[Dataset] = None,
    inputs: List[str] = [],
    splits: Dict[str, int] = _SPLITS,
    partition_feature: str = "",
    kind: str = "",
    source: Dict[str, Any] = {},
    schema: str = "",
    options: Dict[str, Any] = {},
    workers: int = 1,
) -> dsl.ContainerSpec:
    """Turn outside data into sharded, checked TFRecords.

    Args:
        data: A file or a folder; or give `inputs`.
        inputs: Paths or globs on a volume that the task mounts, or addresses.
        splits: The share of each split.
        partition_feature: Rows with equal values of this feature go to the same split.
        kind: Kind of the data, such as csv or parquet; by default it follows from names and
            contents.
        source: Options of that kind, by the names in `penstock ingest --kind KIND --help`.
        schema: Text of a schema.pbtxt with the types; by default they follow from a sample.
        options: Options by name, such as `{"on_bad_row": "quarantine", "shards": {"shards": 8}}`;
            see `penstock.nodes.IngestOptions`.
        workers: Number of processes.

    Returns:
        examples: Folder of `Split-*/` and manifest.json.
        metrics: Rows read, written and quarantined; shards.
    """


def validate(
    examples: Input[Dataset],
    statistics: Output[Artifact],
    schema_used: Output[Artifact],
    report: Output[HTML],
    metrics: Output[Metrics],
    fit: OutputPath(bool),  # type: ignore[valid-type]
    baseline: Input[Artifact] = None,
    options: Dict[str, Any] = {},
    schema: str = "",
    stop_if_unfit: bool = True,
    workers: int = 1,
) -> dsl.ContainerSpec:
    """Check shards before they are trained on: bytes, statistics, schema, label.

    Args:
        examples: Output of `ingest`, or the Examples of any ExampleGen.
        baseline: The `statistics` of an earlier validation, from which `max_drift` is measured.
        options: Limits of the gate by name, such as `{"labels": ["tips"], "max_skew": 0.2}`; see
            `penstock.nodes.GateOptions`.
        schema: Text of a schema.pbtxt that the shards must fit; by default it is inferred.
        stop_if_unfit: Fail and list all problems; otherwise only the output `fit` is false.
        workers: Number of processes.

    Returns:
        statistics: Folder of `Split-*/FeatureStats.pb` and `SchemaDiff.pb`.
        schema_used: The schema as text.
        report: HTML page with the problems, the anomalies and the features.
        metrics: Rows of each split, number of problems.
        fit: Whether the data has no problems.
    """


def pack(
    examples: Input[Dataset],
    packed: Output[Dataset],
    metrics: Output[Metrics],
    options: Dict[str, Any] = {},
    schema: str = "",
    workers: int = 1,
) -> dsl.ContainerSpec:
    """Turn row Examples into packed, shuffled records, which training reads many times faster.

    Args:
        examples: Output of `ingest`, or the Examples of any ExampleGen.
        options: Options by name, such as `{"splits": ["train"], "ids": ["city"]}`; images are
            NAME or NAME=HxW; see `penstock.nodes.PackOptions`.
        schema: Text of a schema.pbtxt with columns and shapes; by default they follow from the
            rows.
        workers: Number of processes.

    Returns:
        packed: Folder of `Split-*/` and manifest.json.
        metrics: Rows of each split; shards.
    """


DEFINITIONS = {"ingest": ingest, "validate": validate, "pack": pack}
