"""`penstock pack`: row Examples in, packed training records out, without TFX."""

from pathlib import Path
from typing import Annotated, Any

import typer

from penstock.components.engine.options import EngineOptions
from penstock.components.errors import UsageError
from penstock.components.packing.options import ImageColumn, PackOptions
from penstock.components.tfrecord.sharding import MIB, ShardOptions
from penstock.pipelines.cli.option_flags import Overwrite, flag_names, given, in_flags, with_flags


def _pack(
    examples: Annotated[
        str,
        typer.Argument(help="Folder or address of row Examples, with Split-NAME folders in it."),
    ],
    output: Annotated[str, typer.Argument(help="Folder to make, or an address, s3:// or gs://.")],
    split: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Split to pack; repeatable. [all]")
    ] = None,
    columns: Annotated[str, typer.Option(metavar="NAME,...", help="Features to keep. [all]")] = "",
    schema: Annotated[
        Path | None,
        typer.Option(help="schema.pbtxt that decides columns and shapes; else the rows do."),
    ] = None,
    ids: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Text feature to store as vocabulary ids; repeatable."),
    ] = None,
    image: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME[=HxW[xC]]", help="Image feature to store as decoded pixels; repeatable."
        ),
    ] = None,
    on_missing: Annotated[
        str,
        typer.Option(
            help="A row without a value: fill puts 0 or the empty text there, list makes the "
            "column a list, fail stops."
        ),
    ] = PackOptions.on_missing,
    block_rows: Annotated[
        int | None, typer.Option(help="Rows of a record; else 4,096, or as many as are 1 MiB.")
    ] = PackOptions.block_rows,
    seed: Annotated[int, typer.Option(help="Of the shuffle.")] = PackOptions.seed,
    shards: Annotated[
        int | None, typer.Option(help="Shards of each split; else planned.")
    ] = ShardOptions.shards,
    memory_mib: Annotated[
        int, typer.Option(help="MiB of rows to shuffle in memory at a time.")
    ] = PackOptions.memory_bytes // MIB,
    overwrite: Overwrite = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the manifest.")] = False,
    **engine: Any,
) -> None:
    """Turn row Examples into packed, shuffled records that training reads many times as fast.

    OUTPUT appears complete when the work is done, or not at all. Statistics,
    Transform and Evaluator keep reading row Examples; packed records are for training.

    Example: penstock pack shards packed --split train --seed 1
    """
    try:
        on_engine = EngineOptions(**given(engine))
    except UsageError as error:
        error.args = (in_flags(str(error), flag_names(EngineOptions)),)
        raise
    options = PackOptions(
        splits=tuple(split or ()),
        columns=tuple(name for name in columns.split(",") if name),
        block_rows=block_rows,
        seed=seed,
        ids=tuple(ids or ()),
        images=tuple(ImageColumn.parse(text) for text in image or ()),
        on_missing=on_missing,  # type: ignore[arg-type]  # the options check it
        memory_bytes=memory_mib * MIB,
        shards=ShardOptions(shards=shards),
    )
    # TensorFlow takes seconds to import; --help needs none of it.
    from penstock.pipelines.cli.work.pack import run_pack

    run_pack(
        examples,
        output,
        options,
        engine=on_engine,
        schema=schema,
        overwrite=overwrite,
        as_json=as_json,
    )


command = with_flags(_pack, EngineOptions, panel="Engine")
