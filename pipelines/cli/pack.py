"""`penstock pack`: row Examples in, packed training records out, without TFX."""

from pathlib import Path
from typing import Annotated, Any

import typer

from penstock.components.engine.options import EngineOptions
from penstock.components.packing.options import PackOptions
from penstock.components.tfrecord.sharding import ShardOptions
from penstock.pipelines.cli.option_flags import (
    Overwrite,
    errors_in_flags,
    flag_names,
    given,
    taken,
    with_flags,
)


def _pack(
    examples: Annotated[
        str,
        typer.Argument(help="Folder or address of row Examples, with Split-NAME folders in it."),
    ],
    output: Annotated[str, typer.Argument(help="Folder to make, or an address, s3:// or gs://.")],
    schema: Annotated[
        Path | None,
        typer.Option(help="schema.pbtxt that decides columns and shapes; else the rows do."),
    ] = None,
    overwrite: Overwrite = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the manifest.")] = False,
    **more: Any,
) -> None:
    """Turn row Examples into packed, shuffled records that training reads many times as fast.

    OUTPUT appears complete when the work is done, or not at all. Statistics,
    Transform and Evaluator keep reading row Examples; packed records are for training.

    Example: penstock pack shards packed --split train --seed 1
    """
    kinds = (PackOptions, ShardOptions, EngineOptions)
    with errors_in_flags({name: flag for kind in kinds for name, flag in flag_names(kind).items()}):
        values = given(more)
        engine = EngineOptions(**taken(values, EngineOptions))
        shards = ShardOptions(**taken(values, ShardOptions))
        options = PackOptions(shards=shards, **values)
    # TensorFlow takes seconds to import; --help needs none of it.
    from penstock.pipelines.cli.work.pack import run_pack

    run_pack(
        examples,
        output,
        options,
        engine=engine,
        schema=schema,
        overwrite=overwrite,
        as_json=as_json,
    )


_on_rows = with_flags(_pack, PackOptions, panel="Packing")
_on_shards = with_flags(_on_rows, ShardOptions, panel="Packing")
command = with_flags(_on_shards, EngineOptions, panel="Engine")
