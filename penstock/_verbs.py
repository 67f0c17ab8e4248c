"""Commands as functions, for scripts and notebooks; a notebook shows their return value."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from penstock.components.doctor.diff import DataDiff
    from penstock.components.engine.options import EngineOptions
    from penstock.components.example_gen.options import IngestOptions, SplitOptions
    from penstock.components.packing.options import PackOptions
    from penstock.components.sources.options import KindOptions
    from penstock.components.tfrecord.manifest import Manifest
    from penstock.pipelines.cli.init import Starter
    from penstock.pipelines.cli.report import ReportPage
    from penstock.pipelines.cli.shard_tables import Inspection
    from penstock.pipelines.reporting.summary import RunSummary


def ingest(
    data: str | Sequence[str],
    output: str | os.PathLike[str],
    *,
    source: KindOptions | None = None,
    splits: SplitOptions | None = None,
    options: IngestOptions | None = None,
    workers: int = 1,
    engine: EngineOptions | None = None,
    overwrite: bool = False,
) -> Manifest:
    """Turns outside data into an Examples folder, which appears complete or not at all.

    Args:
        data: A file, a glob, a folder or an address; or a list of them.
        output: Folder to make, or an address, `s3://` or `gs://`.
        source: Options of the kind of data, such as `Table` or `Images`; by default the kind
            follows from names and contents of the files.
        splits: The splits and their shares; two thirds `train` and one third `eval` by default.
        options: Shards, compression, rejected rows.
        workers: Number of processes on this machine.
        engine: Beam runner and its options, such as Flink; by default processes on this machine.
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

    return write_examples(
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
    """Turns row Examples into packed, shuffled records, which training reads many times faster.

    Args:
        examples: Folder or address of row Examples that Penstock or TFX wrote.
        output: Folder to make, or an address, `s3://` or `gs://`.
        options: Options of packing.
        schema: A schema.pbtxt with columns and shapes; by default they follow from the rows.
        workers: Number of processes on this machine.
        engine: Beam runner and its options, such as Flink; by default processes on this machine.
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
    from penstock.components.packing.transformed import stated_columns

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
        DataError: The data has nothing to learn from; the message says why.
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
        path: A TFRecord file, a folder of them, or a glob.
        samples: Number of distinct values to show of each feature.
        max_records: Most records to parse, taken from the beginning of each file, and at most 64
            MiB; None parses and counts all records.

    Returns:
        The files with their faults, and type, counts and samples of each feature.

    Raises:
        DataError: No TFRecord file is at `path`.
    """
    from penstock.components.doctor.inspect import inspect as look_into
    from penstock.pipelines.cli.shard_tables import Inspection

    return Inspection(**vars(look_into(path, samples=samples, max_records=max_records)))


def diff(
    a: str | os.PathLike[str],
    b: str | os.PathLike[str],
    *,
    limit: float = 0.2,
    ignore: Collection[str] = (),
    source: KindOptions | None = None,
    workers: int = 1,
    root: str = "runs",
) -> DataDiff:
    """Compares two data sets column by column, with the distances of the ValidationGate.

    Args:
        a: A folder of shards, a split of one, a run's folder or id, or data as for `ingest`.
        b: The same; compared with `a`.
        limit: Distance above which a column differs, 0..1.
        ignore: Columns to leave out, such as ids.
        source: Options of reading data that is not in shards.
        workers: Number of processes on this machine.
        root: Folder in which run ids are searched.

    Returns:
        Rows, and for each column type, missing values, distance and new values; `different` are the
        columns above the limit.

    Raises:
        DataError: Data cannot be read or has no rows.
        UsageError: A place is neither data nor a run, or `limit` is not within 0..1.
    """
    from penstock.pipelines.cli.diff import run_diff

    return run_diff(
        os.fspath(a),
        os.fspath(b),
        limit=limit,
        ignore=ignore,
        source=source,
        workers=workers,
        root=root,
    )


def report(
    *runs: str,
    out: str | os.PathLike[str] | None = None,
    root: str = "runs",
    overwrite: bool = False,
) -> ReportPage:
    """Write one self-contained HTML page that shows a run of any TFX pipeline, or compares runs.

    Args:
        *runs: Folder, metadata file or id of each run; by default the newest run. Two to four runs
            are compared: what changed, and its effect on the metrics.
        out: File of the page; by default `report.html` beside the metadata.
        root: Folder in which run ids are searched.
        overwrite: Replace a file at `out`.

    Returns:
        Path of the page; a notebook shows the page itself.

    Raises:
        UsageError: A run does not exist, more than four are given, or `out` exists.
        DataError: The metadata cannot be read, or the page cannot be written.
    """
    from penstock.pipelines.cli.report import ReportPage, write_report_page

    page = Path(out) if out else None
    return ReportPage(write_report_page(runs, out=page, root=root, overwrite=overwrite))


def run(pipeline: str = ".", options: Mapping[str, Any] | None = None) -> RunSummary:
    """Run a pipeline on this machine; the output of its nodes goes to a log beside its metadata.

    Args:
        pipeline: `taxi`, `digits`, or a dotted path such as `my_package.pipeline:create_pipeline`;
            by default the pipeline of the package in the working directory.
        options: Config options to change, by name; nested options are mappings: `{"root":
            "runs/mine", "train": {"max_steps": 80}}`.

    Returns:
        Summary of the run: rows read, metrics, and the pushed model.

    Raises:
        UsageError: The pipeline or an option does not exist.
        DataError: A node failed, with the reason; or another run is active in the same root.
    """
    from penstock.pipelines.cli.run import run_quietly

    return run_quietly(pipeline, options or {})
