"""`penstock pack`: turns row Examples into packed training records, without TFX."""

import os
import sys
import time
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Any

import typer

from penstock.components.engine.options import EngineOptions
from penstock.components.packing.options import PackOptions
from penstock.components.tfrecord.sharding import ShardOptions
from penstock.pipelines.cli.option_flags import (
    ManyOptions,
    Overwrite,
    errors_in_flags,
    flag_names,
    given,
    taken,
    with_flags,
)

if TYPE_CHECKING:
    from penstock.components.tfrecord.manifest import Manifest


def _pack(
    examples: Annotated[
        str,
        typer.Argument(help="Folder or address of row Examples, with Split-NAME folders in it."),
    ],
    output: Annotated[str, typer.Argument(help="Folder to make, or an address, s3:// or gs://.")],
    schema: Annotated[
        Path | None,
        typer.Option(
            help="schema.pbtxt with columns and shapes; by default they follow from the rows."
        ),
    ] = None,
    overwrite: Overwrite = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the manifest.")] = False,
    **more: Any,
) -> None:
    """Turn row Examples into packed, shuffled records, which training reads many times faster.

    OUTPUT appears only after the work is done. Statistics, Transform and Evaluator keep reading row
    Examples; packed records are for training.

    --help-all shows all options.

    Example: penstock pack shards packed --split train --seed 1
    """
    kinds = (PackOptions, ShardOptions, EngineOptions)
    with errors_in_flags({name: flag for kind in kinds for name, flag in flag_names(kind).items()}):
        values = given(more)
        engine = EngineOptions(**taken(values, EngineOptions))
        shards = ShardOptions(**taken(values, ShardOptions))
        options = PackOptions(shards=shards, **values)
    from penstock.pipelines.terminal.progress import watched_rows

    started = time.perf_counter()
    with watched_rows():
        manifest = pack(
            examples, output, options, schema=schema, engine=engine, overwrite=overwrite
        )
    if as_json:
        sys.stdout.write(manifest.to_json())
    else:
        _report(manifest, output, time.perf_counter() - started)


def pack(
    examples: str | os.PathLike[str],
    output: str | os.PathLike[str],
    options: PackOptions | None = None,
    *,
    schema: str | os.PathLike[str] | None = None,
    workers: int = 1,
    engine: EngineOptions | None = None,
    overwrite: bool = False,
) -> "Manifest":
    """Turns row Examples into packed, shuffled records, which training reads many times faster.

    Args:
        examples: Folder or address of row Examples that Penstock or TFX wrote.
        output: Folder to make, or an address, `s3://` or `gs://`.
        options: Options of packing.
        schema: A schema.pbtxt with columns and shapes; by default they are inferred from the rows.
        workers: Number of processes on this machine.
        engine: Beam runner, such as Flink, and its options; by default `workers` processes on this
            machine.
        overwrite: Replace `output` once the new one is complete.

    Returns:
        The manifest of the written shards.

    Raises:
        DataError: The rows cannot be read, or do not fit the columns; nothing new is left at
            `output`.
        UsageError: An option or `output` cannot be used.
    """
    # These modules are imported here because --help does not need them.
    from penstock.components.engine.tasks import task_engine
    from penstock.components.packing.pack import pack as write_packed

    stated = None
    if schema is not None:
        from penstock.components.packing.transformed import stated_columns  # needs TensorFlow

        stated = stated_columns(schema)
    return write_packed(
        os.fspath(examples),
        output,
        options,
        stated=stated,
        engine=task_engine(engine or EngineOptions(workers=workers)),
        overwrite=overwrite,
    )


def _report(manifest: "Manifest", output: str, seconds: float) -> None:
    from penstock.components.packing.layout import PackedLayout
    from penstock.pipelines.cli.shard_tables import show_columns, show_splits
    from penstock.pipelines.terminal.tables import console

    out = console()
    layout = PackedLayout.from_dict(manifest.packed or {}, output)
    show_splits(out, f"{output}: blocks of {layout.block_rows:,} rows", manifest)
    show_columns(out, manifest, output)
    account = manifest.account
    out.print(
        f"{account.read:,} rows read = {sum(account.written.values()):,} written, "
        f"in {seconds:.1f} s"
    )
    out.print(f"check: penstock verify {quote(output)}")


_USUAL = ("splits", "columns", "images", "ids", "seed", "shards", "workers")
_on_rows = with_flags(_pack, PackOptions, panel="Packing", usual=_USUAL)
_on_shards = with_flags(_on_rows, ShardOptions, panel="Packing", usual=_USUAL)
command = with_flags(_on_shards, EngineOptions, panel="Engine", usual=_USUAL)
Command = ManyOptions
