"""`penstock ingest`: files in, an Examples folder out, without TFX."""

from pathlib import Path
from typing import Annotated

import typer

from penstock.components.errors import UsageError
from penstock.components.example_gen.options import IngestOptions
from penstock.components.example_gen.split_options import Split, SplitOptions
from penstock.components.sources.options import SourceOptions
from penstock.components.tfrecord.sharding import ShardOptions

_TAB = {"tab": "\t", "\\t": "\t"}  # a shell passes neither


def command(
    inputs: Annotated[list[str], typer.Argument(help="CSV or Parquet: files, a glob or a folder.")],
    output: Annotated[Path, typer.Argument(help="Folder to make.")],
    split: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=N", help="Once a split; N is its share. [train=2, eval=1]"),
    ] = None,
    partition_feature: Annotated[
        str | None, typer.Option(help="Rows with the same value of it share their split.")
    ] = SplitOptions.partition_feature,
    kind: Annotated[
        str | None, typer.Option(help="csv or parquet; else by name and content.")
    ] = SourceOptions.kind,
    schema: Annotated[
        Path | None, typer.Option(help="schema.pbtxt that decides the types; else a sample does.")
    ] = None,
    extra_columns: Annotated[
        str, typer.Option(help="Columns that the schema does not name: reject or drop.")
    ] = SourceOptions.extra_columns,
    delimiter: Annotated[
        str, typer.Option(help="Between the fields of a CSV row; tab for a tabulator.")
    ] = SourceOptions.delimiter,
    column_name: Annotated[
        list[str] | None, typer.Option(help="Once a column, for CSV files without a header.")
    ] = None,
    null_token: Annotated[
        list[str] | None,
        typer.Option(help="Text that means no value in columns of numbers; replaces the defaults."),
    ] = None,
    non_finite: Annotated[
        str, typer.Option(help="NaN and infinity: reject, null or keep.")
    ] = SourceOptions.non_finite,
    allow_empty: Annotated[
        bool, typer.Option("--allow-empty", help="Pass over files without rows.")
    ] = SourceOptions.allow_empty,
    on_bad_row: Annotated[
        str, typer.Option(help="strict stops at it; quarantine sets it aside with its reason.")
    ] = IngestOptions.on_bad_row,
    max_quarantined_share: Annotated[
        float, typer.Option(help="Stop when more of the rows than this are set aside.")
    ] = IngestOptions.max_quarantined_share,
    shards: Annotated[
        int | None, typer.Option(help="Shards of each split; else planned.")
    ] = ShardOptions.shards,
    reading_hosts: Annotated[
        int, typer.Option(help="Hosts that will read the shards at the same time.")
    ] = ShardOptions.reading_hosts,
    compression: Annotated[str, typer.Option(help="GZIP, or nothing.")] = IngestOptions.compression,
    workers: Annotated[int, typer.Option(min=1, help="Processes that work at the same time.")] = 1,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace OUTPUT once the new one is complete.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the manifest.")] = False,
) -> None:
    """Turn files into sharded TFRecords with a manifest.

    All of OUTPUT appears at once when the work is done, or nothing of it does.

    Example: penstock ingest trips.csv shards --split train=9 --split eval=1
    """
    chosen = tuple(_split(text) for text in split) if split else SplitOptions.splits
    splits = SplitOptions(chosen, partition_feature=partition_feature)
    source_options = SourceOptions(
        kind=kind,
        schema_file=str(schema) if schema else None,
        extra_columns=extra_columns,
        delimiter=_TAB.get(delimiter, delimiter),
        column_names=tuple(column_name) if column_name else None,
        null_tokens=tuple(null_token) if null_token else SourceOptions.null_tokens,
        non_finite=non_finite,
        allow_empty=allow_empty,
    )
    options = IngestOptions(
        shards=ShardOptions(shards=shards, reading_hosts=reading_hosts),
        compression=compression.upper(),
        on_bad_row=on_bad_row,  # type: ignore[arg-type]  # the options check it
        max_quarantined_share=max_quarantined_share,
    )
    # Beam and Arrow take most of a second to import; --help needs neither.
    from penstock.pipelines.ingesting import run_ingest

    run_ingest(
        inputs,
        output,
        source_options,
        splits,
        options,
        workers=workers,
        overwrite=overwrite,
        as_json=as_json,
    )


def _split(text: str) -> Split:
    name, equals, buckets = text.partition("=")
    if not equals or not buckets.isdecimal():
        raise UsageError(f"--split takes NAME=N, N a whole number; got {text!r}")
    return Split(name, int(buckets))
