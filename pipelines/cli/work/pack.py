"""The work of `penstock pack`: pack, show progress, report."""

import sys
import time
from pathlib import Path
from shlex import quote

from penstock.components.engine.options import EngineOptions
from penstock.components.engine.tasks import task_engine
from penstock.components.packing.layout import PackedLayout
from penstock.components.packing.options import PackOptions
from penstock.components.packing.pack import pack
from penstock.components.tfrecord.manifest import Manifest
from penstock.pipelines.cli.work.inspect import show_columns, show_splits
from penstock.pipelines.terminal.interrupts import whole_or_nothing
from penstock.pipelines.terminal.tables import console
from penstock.pipelines.terminal.work_progress import watched_rows


def run_pack(
    examples: str,
    output: str,
    options: PackOptions,
    *,
    engine: EngineOptions,
    schema: Path | None,
    overwrite: bool,
    as_json: bool,
) -> None:
    stated = None
    if schema is not None:
        from penstock.components.packing.stated_columns import stated_columns

        stated = stated_columns(schema)
    started = time.perf_counter()
    passes: list[float] = []
    with whole_or_nothing(), watched_rows():
        manifest = pack(
            examples,
            output,
            options,
            stated=stated,
            overwrite=overwrite,
            engine=task_engine(engine),
            on_cost=passes.append,
        )
    if as_json:
        sys.stdout.write(manifest.to_json())
    else:
        _report(manifest, output, time.perf_counter() - started, *passes)


def _report(manifest: Manifest, output: str, seconds: float, passes: float) -> None:
    out = console()
    layout = PackedLayout.from_dict(manifest.packed or {}, output)
    show_splits(out, f"{output}: blocks of {layout.block_rows:,} rows", manifest)
    show_columns(out, manifest, output)
    account = manifest.account
    out.print(
        f"{account.read:,} rows read = {sum(account.written.values()):,} written, "
        f"in {seconds:.1f} s"
    )
    out.print(
        f"cost about as much CPU as {passes:.1f} passes over the row Examples; training that makes "
        "more of them gains"
    )
    out.print(f"check: penstock verify {quote(output)}")
