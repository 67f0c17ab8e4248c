"""The plain component `pack`: a Dataset of row shards in, one of packed training records out."""

import tempfile
from pathlib import Path

from penstock.components.errors import UsageError
from penstock.components.packing.options import ImageColumn, PackOptions
from penstock.components.packing.pack import pack
from penstock.components.packing.stated_columns import stated_columns
from penstock.components.tfrecord.sharding import ShardOptions
from penstock.pipelines.config.overrides import from_mapping
from penstock.pipelines.kubeflow.executor import ExecutorInput
from penstock.pipelines.kubeflow.plain.parameters import PackParameters


def run(task: ExecutorInput) -> None:
    """Pack `examples` into `packed`, and count into `metrics`.

    Raises:
        DataError: The rows are bad.
        UsageError: A parameter does not fit.
    """
    given = from_mapping(PackParameters, task.parameters)
    examples = task.input_path("examples")
    if examples is None:
        raise UsageError("give the artifact examples")
    options = PackOptions(
        splits=given.splits,
        columns=given.columns,
        block_rows=given.block_rows,
        seed=given.seed,
        ids=given.ids,
        images=tuple(ImageColumn.parse(text) for text in given.images),
        on_missing=given.on_missing,  # type: ignore[arg-type]  # the options check it
        shards=ShardOptions(shards=given.shards),
    )
    stated = None
    if given.schema:
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder, "schema.pbtxt")
            file.write_text(given.schema, encoding="utf-8")
            stated = stated_columns(file)
    # To replace what an earlier try of this task left.
    manifest = pack(
        str(examples), task.output_path("packed"), options, stated=stated, overwrite=True
    )
    rows = {f"rows_{split}": rows for split, rows in manifest.account.written.items()}
    task.write_metrics("metrics", {**rows, "shards": len(manifest.shards)})
