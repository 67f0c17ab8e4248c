"""Packs row Examples: plans the shards, reads the rows, plans the layout, writes, commits.

    output/
      Split-train/data-00000-of-00008.arrow ...       blocks of rows, see layout.py
      Split-eval/data-00000-of-00008.arrow ...
      vocabulary/company.txt ...                      for columns of ids, one value per line
      manifest.json                                   written last

`tasks.py` does the work. Apart from a sample for the plan, rows are decoded once, into Arrow
columns; facts about all rows are known before the first block is made.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from os import PathLike

from penstock.components import activity
from penstock.components.engine.processes import kept_processes
from penstock.components.engine.tasks import Engine, run_tasks
from penstock.components.errors import DataError
from penstock.components.files.output import Output, open_output, require_elsewhere
from penstock.components.files.remote import is_remote
from penstock.components.packing.facts import Facts, StatedColumn
from penstock.components.packing.layout import EMPTY_COLUMNS, PackedLayout
from penstock.components.packing.options import PackOptions
from penstock.components.packing.tasks import (
    PackPlan,
    ReadRows,
    WritePacked,
    plan_layout,
    plan_packing,
    read_tasks,
    write_tasks,
)
from penstock.components.sources.tfrecords.examples import (
    ReadShard,
    RowSplit,
    find_splits,
    read_examples,
)
from penstock.components.tfrecord.manifest import (
    Manifest,
    ManifestColumn,
    Shard,
    digest_of,
)


def pack(
    examples: str | Sequence[str],
    output: str | PathLike[str],
    options: PackOptions | None = None,
    *,
    stated: Mapping[str, StatedColumn] | None = None,
    read: ReadShard = read_examples,
    engine: Engine = 1,
    overwrite: bool = False,
) -> Manifest:
    """Packs the splits of row Examples; the output appears complete or not at all.

    Args:
        examples: Folder with `Split-*/`, from Penstock or TFX; several folders are packed together,
            split by split.
        output: New folder, or an address (`s3://`, `gs://`); without `overwrite` it must be empty
            or not exist.
        options: Columns to keep, and how to store them.
        stated: Columns and shapes from a schema; None infers them from the rows.
        read: Picklable function that reads a shard as the columns to pack. `TransformedRows`
            applies a saved TransformGraph to raw rows; `stated` must then be taken from the graph's
            schema.
        engine: Engine that runs the tasks.
        overwrite: Whether to replace an existing output at `output`.

    Raises:
        DataError: The rows cannot be read, or do not fit the options.
        UsageError: A split or column in the options does not exist, or `output` cannot be used.
    """
    options = options or PackOptions()
    folders = [examples] if isinstance(examples, str) else examples
    require_elsewhere(folders, output)
    if not isinstance(engine, int):  # a Beam engine's workers have other working directories
        folders = [one if is_remote(one) else os.path.abspath(one) for one in folders]
    splits = _together([split for one in folders for split in find_splits(one, options.splits)])
    if not any(split.rows for split in splits):
        raise DataError(f"{', '.join(folders)}: no rows to pack")
    splits = [replace(split, read=read) for split in splits]
    plan = plan_packing(splits, options, stated)
    with open_output(output, overwrite=overwrite) as opened:
        manifest = _write_packed(splits, plan, opened, engine)
        opened.commit(manifest)
    return manifest


def _together(splits: Sequence[RowSplit]) -> list[RowSplit]:
    found: dict[str, RowSplit] = {}
    for split in splits:
        before = found.get(split.name, replace(split, files=(), shards=()))
        found[split.name] = replace(
            before,
            files=before.files + split.files,
            shards=before.shards + split.shards,
            kinds=before.kinds if before.kinds == split.kinds else {},
        )
    return list(found.values())


def _write_packed(
    splits: Sequence[RowSplit], plan: PackPlan, output: Output, engine: Engine
) -> Manifest:
    facts, parts, tasks = Facts(), [], read_tasks(splits)
    # Each row counts twice, because it is read once and written once.
    with kept_processes(), activity.counting(2 * sum(plan.rows.values())):
        for found, places in run_tasks(tasks, ReadRows(plan, output), output, engine):
            facts.merge(found)
            parts.append(places)
        layout, words, files = plan_layout(facts, plan)
        for path, content in files.items():
            output.put(path, content)
        work = WritePacked(plan, layout, words, output)
        shards = list(run_tasks(write_tasks(plan, tasks, parts), work, output, engine))
    return _manifest(splits, plan, facts, layout, shards)


def _manifest(
    splits: Sequence[RowSplit],
    plan: PackPlan,
    facts: Facts,
    layout: PackedLayout,
    shards: Sequence[tuple[str, Shard]],
) -> Manifest:
    columns = tuple(ManifestColumn(c.name, c.kind, c.storage == "list") for c in layout.columns)
    kept = {column.name for column in columns}
    empty = sorted(n for n, seen in facts.columns.items() if not seen.rows and n not in kept)
    written = {
        split.name: tuple(shard for name, shard in shards if name == split.name) for split in splits
    }
    return Manifest.of(
        written,
        columns,
        read=sum(plan.rows.values()),
        source_kind="examples",
        source_fingerprint=digest_of(shard for split in splits for shard in split.shards),
        source_files=sum(len(split.files) for split in splits),
        plan="; ".join(f"{name}: {shards.reason}" for name, shards in plan.shards.items()),
        packed={**layout.to_dict(), EMPTY_COLUMNS: empty},
    )
