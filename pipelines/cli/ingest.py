"""`penstock ingest`: turns outside data into an Examples folder, without TFX."""

import os
import sys
import time
from collections.abc import Sequence
from functools import partial
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Any

import typer

from penstock.components.engine.options import EngineOptions
from penstock.components.errors import UsageError, counted
from penstock.components.example_gen.options import IngestInput, IngestOptions, Split, SplitOptions
from penstock.components.files.find import EXTENSIONS
from penstock.components.sources.kinds import KINDS, find_kind, options_type
from penstock.components.sources.options import KindOptions
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
from penstock.pipelines.config.overrides import name_and_value

if TYPE_CHECKING:
    from penstock.components.example_gen.ingest import PlannedInput
    from penstock.components.tfrecord.manifest import Manifest

# Flags that `flag_names` does not return, by the names of their options in error texts.
_OWN_FLAGS = {
    "kind": "--kind",
    "hash_buckets": "N of --split NAME=N",
}
# Dataclasses of the options that every kind of source has; `_ingest` unpacks them in this order.
_ON_EVERY_KIND = (EngineOptions, ShardOptions, IngestOptions)


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
) -> "Manifest":
    """Turns outside data into an Examples folder, which appears complete or not at all.

    Args:
        data: A file, a glob, a folder or an address; or a list of them.
        output: Folder to make, or an address, `s3://` or `gs://`.
        source: Options of the kind of data, such as `Table` or `Images`; by default the kind is
            recognised from the names and contents of the files.
        splits: The splits and their shares; two thirds `train` and one third `eval` by default.
        options: Shards, compression, rejected rows.
        workers: Number of processes on this machine.
        engine: Beam runner, such as Flink, and its options; by default processes on this machine.
        overwrite: Replace `output` once the new one is complete.

    Returns:
        The manifest of the written shards.

    Raises:
        DataError: The data is bad; nothing new is left at `output`.
        UsageError: An option or `output` cannot be used.
    """
    from penstock.components.engine.tasks import task_engine
    from penstock.components.example_gen.ingest import ingest as write_examples

    return write_examples(
        [IngestInput(data, source, splits or SplitOptions())],
        output,
        options,
        engine=task_engine(engine or EngineOptions(workers=workers)),
        overwrite=overwrite,
    )


class Command(ManyOptions):
    """The command `ingest`; its flags depend on the kind of source, which `_kind_in` finds."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        kind = _kind_in(args)
        if kind is not None:
            app = typer.Typer(add_completion=False)
            with errors_in_flags(partial(_flags_of, None)):
                options = options_type(kind)
            app.command()(with_flags(_on_engine, options, panel=f"Source: {kind}"))
            built = typer.main.get_command(app)
            self.params, self.callback = built.params, built.callback
            args = [*args, "--kind", kind]
        return super().parse_args(ctx, args)


def _kind_in(args: Sequence[str]) -> str | None:
    """Returns the value of `--kind`, else the kind of a JSON Lines or Avro file, or None."""
    for at, arg in enumerate(args):
        if arg.startswith("--kind="):
            return arg.partition("=")[2]
        if arg == "--kind" and at + 1 < len(args):
            return args[at + 1]
    named = (kind for kind in ("jsonl", "avro") for arg in args if arg.endswith(EXTENSIONS[kind]))
    return next(named, None)


def _ingest(
    inputs: Annotated[
        list[str] | None,
        typer.Argument(help="Files, a glob or a folder; or an address that the kind reads."),
    ] = None,
    *,
    output: Annotated[str, typer.Argument(help="Folder to make, or an address, s3:// or gs://.")],
    input_split: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=INPUT",
            hidden=True,
            help="Instead of INPUTS: one for each split that has its own input.",
        ),
    ] = None,
    split: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=N", help="One for each split; N is its share. (default: train=2 eval=1)"
        ),
    ] = None,
    partition_feature: Annotated[
        str | None, typer.Option(help="Rows with the same value go to the same split.")
    ] = SplitOptions.partition_feature,
    kind: Annotated[
        str | None,
        typer.Option(help=f"{', '.join(KINDS)}; else by name and content. Brings its own flags."),
    ] = None,
    overwrite: Overwrite = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the manifest.")] = False,
    **more: Any,
) -> None:
    """Turn outside data into sharded TFRecords with a manifest.

    OUTPUT appears only after the work is done. --help-all shows all options.

    Example: penstock ingest trips.csv shards --split train=9 --split eval=1
    """
    with errors_in_flags(partial(_flags_of, kind)):
        values = {**given(more), **({"kind": kind} if kind else {})}
        engine, shards, ingest = (taken(values, one) for one in _ON_EVERY_KIND)
        if "compression" in ingest:
            ingest["compression"] = ingest["compression"].upper()
        options = IngestOptions(shards=ShardOptions(**shards), **ingest)
        parts = _inputs(options_type(kind)(**values), inputs, input_split, split, partition_feature)
        _run(parts, output, options, EngineOptions(**engine), overwrite, as_json)


_USUAL = ("on_bad_row", "shards", "workers", "schema_file", "delimiter")
_on_rows = with_flags(_ingest, IngestOptions, panel="Rows", usual=_USUAL)
_on_shards = with_flags(_on_rows, ShardOptions, panel="Rows", usual=_USUAL)
_on_engine = with_flags(_on_shards, EngineOptions, panel="Engine", usual=_USUAL)
command = with_flags(_on_engine, options_type(None), panel="Source: a table in files", usual=_USUAL)


def _flags_of(kind: str | None, text: str) -> dict[str, str]:
    if kind is not None and kind not in KINDS:
        return {}
    # If --kind was not given, the kind is that of the file with whose name the error begins. Flags
    # of this kind work only together with --kind, so the error shows both.
    path = text.split(": ", 1)[0].lower()
    found = next((k for k, ends in EXTENSIONS.items() if k in KINDS and path.endswith(ends)), None)
    flags: dict[str, str] = {}
    if kind is None and found:
        more = flag_names(options_type(found)).items()
        flags = {name: f"--kind {found} {flag}" for name, flag in more}
    for one in (*_ON_EVERY_KIND, options_type(kind)):
        flags |= flag_names(one)
    return flags | _OWN_FLAGS


def _inputs(
    source: KindOptions,
    inputs: Sequence[str] | None,
    input_splits: Sequence[str] | None,
    split: Sequence[str] | None,
    partition_feature: str | None,
) -> list[IngestInput]:
    if bool(inputs) == bool(input_splits):
        raise UsageError(
            "name INPUTS, which are divided, or --input-split once for each split; the last path "
            "is OUTPUT"
        )
    if inputs:
        chosen = tuple(_split(text) for text in split) if split else SplitOptions.splits
        splits = SplitOptions(chosen, partition_feature=partition_feature)
        return [IngestInput(inputs, source, splits)]
    if split or partition_feature:
        raise UsageError(
            "--split and --partition-feature divide INPUTS, not those of --input-split"
        )
    by_name: dict[str, list[str]] = {}
    for text in input_splits or ():
        name, place = name_and_value("--input-split", text)
        by_name.setdefault(name, []).append(place)
    return [
        IngestInput(places, source, SplitOptions((Split(name),)))
        for name, places in by_name.items()
    ]


def _split(text: str) -> Split:
    name, buckets = name_and_value("--split", text)
    if not buckets.isdecimal():
        raise UsageError(f"--split takes NAME=N, N a whole number; got {text!r}")
    return Split(name, int(buckets))


def _run(
    inputs: Sequence[IngestInput],
    output: str,
    options: IngestOptions,
    engine: EngineOptions,
    overwrite: bool,
    as_json: bool,
) -> None:
    # These modules are imported here because --help does not need them.
    from penstock.components.engine.tasks import task_engine
    from penstock.components.example_gen.ingest import ingest as write_examples
    from penstock.pipelines.terminal.progress import watched_rows
    from penstock.pipelines.terminal.tables import console

    errors = console(stderr=True)
    started = time.perf_counter()
    planned: list[PlannedInput] = []

    def show(one: "PlannedInput") -> None:
        planned.append(one)
        source = one.source
        noun = "file" if find_kind(source.kind).of_files else "input"
        inputs_are = counted(len(source.files), f"{source.kind} {noun}")
        plan = f"; shards of each split: {one.plan.reason}"
        errors.print(f"{counted(source.rows, 'row')} in {inputs_are}{plan}")
        for note in source.notes:
            errors.print(note)

    with watched_rows():
        manifest = write_examples(
            inputs,
            output,
            options,
            engine=task_engine(engine),
            overwrite=overwrite,
            on_planned=show,
        )
    if as_json:
        sys.stdout.write(manifest.to_json())
    else:
        _report(manifest, planned, output, time.perf_counter() - started)


def _report(
    manifest: "Manifest", planned: Sequence["PlannedInput"], output: str, seconds: float
) -> None:
    from penstock.pipelines.cli.shard_tables import show_splits
    from penstock.pipelines.terminal.tables import console

    out = console()
    show_splits(out, f"{output}: {counted(len(manifest.shards), 'shard')}", manifest)
    account = manifest.account
    out.print(
        f"{account.read:,} rows read = {sum(account.written.values()):,} written "
        f"+ {account.quarantined:,} quarantined + {account.blank:,} blank, in {seconds:.1f} s"
    )
    for name, rows in account.written.items():
        if not rows:
            out.print(f"split {name!r} has no rows")
    if manifest.quarantine:
        out.print(f"quarantined rows: {output}/{manifest.quarantine}")
    ignored = [path for one in planned for path in one.source.ignored]
    if ignored:
        out.print(f"ignored: {', '.join(ignored)}")
    out.print(f"look closer: penstock inspect {quote(output)}")
