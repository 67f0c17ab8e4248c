"""The plain component `ingest`: outside data in, a Dataset of shards and its figures out."""

import tempfile
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from penstock.components.engine.pipeline import local_pipeline
from penstock.components.errors import UsageError
from penstock.components.example_gen.ingest import ingest, plan_job
from penstock.components.example_gen.options import IngestOptions
from penstock.components.example_gen.split_options import Split, SplitOptions
from penstock.components.example_gen.stage import spread_by
from penstock.components.sources.kinds import KindOptions, options_type
from penstock.components.sources.open import open_source
from penstock.components.tfrecord.manifest import Manifest
from penstock.components.tfrecord.sharding import ShardOptions
from penstock.pipelines.config.overrides import from_mapping
from penstock.pipelines.kubeflow.executor import ExecutorInput
from penstock.pipelines.kubeflow.plain.parameters import IngestParameters


def run(task: ExecutorInput) -> None:
    """Ingest `data` or `inputs` into `examples`, and count into `metrics`.

    Raises:
        DataError: The data is bad.
        UsageError: A parameter does not fit.
    """
    given = from_mapping(IngestParameters, task.parameters)
    options = IngestOptions(
        shards=ShardOptions(shards=given.shards),
        on_bad_row=given.on_bad_row,  # type: ignore[arg-type]  # the options check it
        max_quarantined_share=given.max_quarantined_share,
    )
    output, make_pipeline = task.output_path("examples"), partial(local_pipeline, given.workers)
    with tempfile.TemporaryDirectory() as folder:
        source_options = _source_options(given, Path(folder))
        spread = spread_by(make_pipeline, output)
        source = open_source(_inputs(task, given), source_options, spread)
        job = plan_job(source, _splits(given.splits), options)
        manifest = ingest(
            [job],
            output,
            options,
            make_pipeline,
            overwrite=True,  # what an earlier try of this task left
        )
    print(f"{manifest.account.read:,} rows read, {len(manifest.shards)} shards: {manifest.plan}")
    task.write_metrics("metrics", _figures(manifest))


def _inputs(task: ExecutorInput, given: IngestParameters) -> list[str]:
    data = task.input_path("data")
    if (data is None) == (not given.inputs):
        raise UsageError("give either the artifact data or the list inputs")
    return [str(data)] if data is not None else list(given.inputs)


def _splits(shares: Mapping[str, int]) -> SplitOptions:
    for name, share in shares.items():
        if not isinstance(share, int):
            raise UsageError(f"splits must be whole numbers by name, got {name}: {share!r}")
    return SplitOptions(tuple(Split(name, share) for name, share in shares.items()))


def _source_options(given: IngestParameters, folder: Path) -> KindOptions:
    kind = given.kind or None
    values: dict[str, object] = {**given.source, **({"kind": kind} if kind else {})}
    if given.schema:
        file = folder / "schema.pbtxt"
        file.write_text(given.schema, encoding="utf-8")
        values["schema_file"] = str(file)
    options: KindOptions = from_mapping(options_type(kind), values, where="source")
    return options


def _figures(manifest: Manifest) -> dict[str, float]:
    account = manifest.account
    return {
        "rows_read": account.read,
        **{f"rows_{split}": rows for split, rows in account.written.items()},
        "rows_quarantined": account.quarantined,
        "shards": len(manifest.shards),
    }
