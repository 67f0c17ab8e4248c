"""Commands as functions, for scripts and notebooks, which show what they return."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from penstock.components.engine.options import EngineOptions
    from penstock.components.example_gen.options import IngestOptions, SplitOptions
    from penstock.components.packing.options import PackOptions
    from penstock.components.sources.options import KindOptions
    from penstock.components.tfrecord.manifest import Manifest
    from penstock.pipelines.cli.init import Starter
    from penstock.pipelines.cli.report import ReportPage
    from penstock.pipelines.cli.shard_tables import Inspection
    from penstock.pipelines.kubeflow.placement import Placement
    from penstock.pipelines.kubeflow.plan import Plan
    from penstock.pipelines.reporting.summary import RunSummary


def ingest(
    data: str | Sequence[str],
    output: str | os.PathLike[str],
    *,
    source: KindOptions | None = None,
    splits: SplitOptions | None = None,
    options: IngestOptions | None = None,
    packing: PackOptions | None = None,
    workers: int = 1,
    engine: EngineOptions | None = None,
    overwrite: bool = False,
) -> Manifest:
    """Turns outside data into an Examples folder, which appears complete or not at all.

    Args:
        data: Files, a glob, a folder or an address; one or several.
        output: Folder to make, or an address, `s3://` or `gs://`.
        source: Options of the kind of data, such as `Table` or `Images`; by default the names and
            contents of the files decide.
        splits: The splits and their shares; two thirds `train` and one third `eval` by default.
        options: Shards, compression, rejected rows.
        packing: Writes packed records for training, with these options, instead of Examples.
        workers: Number of processes on this machine.
        engine: An engine elsewhere, such as Flink.
        overwrite: Replace `output` once the new one is complete.

    Returns:
        The manifest of what was written.

    Raises:
        DataError: The data is bad; nothing is left at `output`.
        UsageError: An option or `output` cannot be used.
    """
    from penstock.components.engine.options import EngineOptions
    from penstock.components.engine.tasks import task_engine
    from penstock.components.example_gen.ingest import ingest as write_examples
    from penstock.components.example_gen.options import IngestInput, SplitOptions
    from penstock.components.packing.spool import ingest_packed

    work = partial(ingest_packed, packing=packing) if packing else write_examples
    return work(
        [IngestInput(data, source, splits or SplitOptions())],
        output,
        options,
        engine=task_engine(engine or EngineOptions(workers=workers)),
        overwrite=overwrite,
    )


def pack(
    examples: str | os.PathLike[str],
    output: str | os.PathLike[str],
    options: PackOptions | None = None,
    *,
    schema: str | os.PathLike[str] | None = None,
    workers: int = 1,
    engine: EngineOptions | None = None,
    overwrite: bool = False,
) -> Manifest:
    """Turns row Examples into packed, shuffled records that training reads many times as fast.

    Args:
        examples: Folder or address of row Examples, Penstock's or any that TFX wrote.
        output: Folder to make, or an address, `s3://` or `gs://`.
        options: Options of packing.
        schema: A schema.pbtxt that decides columns and shapes; by default the rows do.
        workers: Number of processes on this machine.
        engine: An engine elsewhere, such as Flink.
        overwrite: Replace `output` once the new one is complete.

    Returns:
        The manifest of what was written.

    Raises:
        DataError: The rows cannot be read, or do not fit; nothing is left at `output`.
        UsageError: An option or `output` cannot be used.
    """
    from penstock.components.engine.options import EngineOptions
    from penstock.components.engine.tasks import task_engine
    from penstock.components.packing.pack import pack as write_packed
    from penstock.components.packing.stated_columns import stated_columns

    return write_packed(
        os.fspath(examples),
        output,
        options,
        stated=stated_columns(schema) if schema else None,
        engine=task_engine(engine or EngineOptions(workers=workers)),
        overwrite=overwrite,
    )


def init(
    folder: str | os.PathLike[str],
    data: str,
    *,
    target: str | Sequence[str] = (),
    labels: str | os.PathLike[str] | None = None,
    drop: Sequence[str] = (),
    roles: Mapping[str, str] | None = None,
    group: str | None = None,
    time: str | None = None,
    source: Mapping[str, Any] | None = None,
) -> Starter:
    """Looks at data and writes a small package that trains on it.

    Args:
        folder: Folder to make; its name is the pipeline's.
        data: A table, as a file, a glob or a folder; or a folder of images.
        target: Column to predict, or several; none for images with one folder per class.
        labels: Label file of the images; by default the one beside them.
        drop: Columns that the model does not get.
        roles: Roles of columns by name: `number`, `boolean`, `date`, `category`, `text` or `drop`.
        group: Column whose rows stay in one split, such as a patient's id.
        time: Column of times that divides the rows: the latest third is evaluated.
        source: Options of reading the data by name, such as `{"delimiter": ";"}`.

    Returns:
        The written package and the properties of the data.

    Raises:
        DataError: There is nothing to learn from; states the reason.
        UsageError: The folder exists, its name is taken, or an option does not fit the data.
    """
    from penstock.pipelines.cli.init import run_init
    from penstock.pipelines.starter.options import StarterOptions

    options = StarterOptions(
        targets=(target,) if isinstance(target, str) else tuple(target),
        labels_file=os.fspath(labels) if labels else None,
        drop=tuple(drop),
        roles=roles or {},
        group=group,
        time=time,
        source=source or {},
    )
    return run_init(Path(folder), data, options)


def inspect(path: str, *, samples: int = 3, max_records: int | None = 1000) -> Inspection:
    """Inspect a TFRecord file, a folder of them, or those that match a glob.

    Args:
        path: TFRecord file, folder or glob.
        samples: Distinct values of each feature to show.
        max_records: Records to parse, spread over the files from their beginnings, 64 MiB of
            them at most; None parses and counts all.

    Returns:
        Files, the layout of the first record, and what each feature holds.

    Raises:
        DataError: There is no TFRecord file there.
    """
    from penstock.components.doctor.inspect import inspect as look_into
    from penstock.pipelines.cli.shard_tables import Inspection

    return Inspection(**vars(look_into(path, samples=samples, max_records=max_records)))


def report(
    *runs: str,
    out: str | os.PathLike[str] | None = None,
    root: str = "runs",
    overwrite: bool = False,
) -> ReportPage:
    """Write one self-contained HTML page about a run of any TFX pipeline, or several compared.

    Args:
        *runs: Each a run's folder, metadata file or id; by default the newest. Two to four are
            compared: what changed, and what it did.
        out: The page; by default `report.html` beside the metadata.
        root: Folder in which run ids are looked for.
        overwrite: Replace what stands at `out`.

    Returns:
        The page, a path that a notebook shows.

    Raises:
        UsageError: There is no such run, they are more than four, or `out` is taken.
        DataError: The metadata cannot be read, or the page not be written.
    """
    from penstock.pipelines.cli.report import ReportPage, write_report_page

    page = Path(out) if out else None
    return ReportPage(write_report_page(runs, out=page, root=root, overwrite=overwrite))


def run(pipeline: str = ".", options: Mapping[str, Any] | None = None) -> RunSummary:
    """Run a pipeline on this machine, what its nodes print in a log beside its metadata.

    Args:
        pipeline: `taxi`, `digits`, a dotted path as `my_package.pipeline:create_pipeline`, or
            by default the pipeline of the package in the working directory.
        options: Changes to its config by name, as `--set` and `--config` give them; nested
            options are mappings: `{"root": "runs/mine", "train": {"max_steps": 80}}`.

    Returns:
        What went in and what came out.

    Raises:
        UsageError: There is no such pipeline or option.
        DataError: A node failed, and why; or another run is active in the same root.
    """
    from penstock.pipelines.cli.run import run_quietly

    return run_quietly(pipeline, options or {})


def compile(
    pipeline: str,
    output: str | os.PathLike[str],
    *,
    image: str,
    placement: Placement | None = None,
    options: Mapping[str, Any] | None = None,
    allow_mutable_tag: bool = False,
    overwrite: bool = False,
) -> Plan:
    """Compile a pipeline to a file for Kubeflow Pipelines v2.

    Args:
        pipeline: As in `run`.
        output: The `.yaml` file to make.
        image: The image that its tasks run, `NAME@sha256:...`.
        placement: Placement of the nodes and their resources.
        options: As in `run`.
        allow_mutable_tag: Take an image by tag, which may change between two runs.
        overwrite: Replace what stands at `output`.

    Returns:
        The tasks of the file.

    Raises:
        UsageError: The pipeline, the image, the placement or `output` cannot be used.
    """
    from penstock.components.files.commit import check_file
    from penstock.pipelines.kubeflow.compile import compile_pipeline
    from penstock.pipelines.kubeflow.placement import read_placement

    check_file(output, overwrite=overwrite)
    return compile_pipeline(
        pipeline,
        options or {},
        Path(output),
        image=image,
        placement=placement or read_placement(None),
        allow_mutable_tag=allow_mutable_tag,
    )
