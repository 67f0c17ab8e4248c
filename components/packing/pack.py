"""Row Examples in, packed records out: two passes, one rename.

    output/
      Split-train/data_tfrecord-00000-of-00008 ...    blocks of rows, see packed_layout.py
      Split-eval/data_tfrecord-00000-of-00008 ...
      vocabulary/company.txt ...                      of columns of ids, one value a line
      manifest.json                                   written last

The first pass decodes all rows of all splits: it finds out what each column holds, which is
one thing in all splits, and puts the rows into the shuffler as Arrow columns. The second takes
them out in their new order and writes blocks.
"""

import hashlib
import itertools
import json
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from os import PathLike
from pathlib import Path

import pyarrow as pa

from penstock.components.errors import DataError
from penstock.components.files.commit import attempt
from penstock.components.packing.block import encode_block
from penstock.components.packing.facts import (
    ColumnFacts,
    Facts,
    StatedColumn,
    packed_columns,
    vocabulary,
)
from penstock.components.packing.images import ImageDecoder
from penstock.components.packing.layout import PackedLayout
from penstock.components.packing.options import MAX_BLOCK_ROWS, TARGET_BLOCK_BYTES, PackOptions
from penstock.components.packing.rows import RowDecoder, RowSplit, find_splits, read_batches
from penstock.components.packing.sections import BlockMaker
from penstock.components.packing.shuffle import RowShuffler
from penstock.components.tfrecord.frame_batch import frame_records
from penstock.components.tfrecord.manifest import (
    Manifest,
    ManifestColumn,
    RowAccount,
    Shard,
    write_manifest,
)
from penstock.components.tfrecord.sharding import ShardPlan, plan_shards, shard_name, split_dir
from penstock.components.tfrecord.writer import ShardWriter

SOURCE_KIND = "examples"
# Where the manifest's description of packed records names the columns without any value.
EMPTY_COLUMNS = "empty_columns"
# A GZIP shard of row Examples is about a fifth of what is in it.
_GZIP_RATIO = 5
_SPILL_DIR = ".shuffle"
# What tfx_bsl's decoder takes, as a multiple of the parser that training uses (21 and 5 us a row).
_TFX_BSL_TIMES = 4

# Called with the rows done and the rows to do; each row is done twice, once in each pass.
OnRows = Callable[[int, int], None]
# Called at the end with about how many passes over the row Examples, read and decoded as training
# does, cost as much CPU time as packing them did.
OnCost = Callable[[float], None]


@dataclass(frozen=True)
class _Read:
    """What the first pass found: the rows of each split, shuffled, and the columns of all.

    `cpu_seconds` is about what training takes to read and decode them.
    """

    splits: Sequence[RowSplit]
    shufflers: Mapping[str, RowShuffler]
    facts: Facts
    cpu_seconds: float

    @property
    def rows(self) -> int:
        return self.facts.rows


def pack(
    examples: str,
    output: str | PathLike[str],
    options: PackOptions,
    *,
    stated: Mapping[str, StatedColumn] | None = None,
    overwrite: bool = False,
    on_rows: OnRows = lambda done, total: None,
    on_cost: OnCost = lambda passes: None,
) -> Manifest:
    """Pack the splits of a folder of row Examples; all of the output appears at once, or nothing.

    Args:
        examples: Folder with `Split-*/`, Penstock's or any that TFX wrote.
        output: Folder to make; must not exist, or be empty, unless `overwrite`.
        options: What to keep and how.
        stated: Columns and shapes as a schema has them; None takes them from the rows.
        overwrite: Replace what stands at `output`.
        on_rows: Told of the progress.
        on_cost: Told at the end what it cost.

    Raises:
        DataError: The rows cannot be read, or do not fit what is asked for.
        UsageError: There is no such split or column, or `output` cannot be used.
    """
    began = time.process_time()
    splits = find_splits(examples, options.splits)
    with attempt(output, overwrite=overwrite) as folder:
        read = _read(splits, folder / _SPILL_DIR, options, stated, on_rows)
        layout, maker, vocabularies = _plan(read, options, stated)
        shards = _write(read, layout, maker, folder, options, on_rows)
        shutil.rmtree(folder / _SPILL_DIR, ignore_errors=True)
        for path, values in vocabularies.items():
            _write_vocabulary(folder / path, values)
        manifest = _manifest(read, layout, shards)
        write_manifest(folder, manifest)
    a_pass = read.cpu_seconds + maker.images_cpu_seconds
    on_cost((time.process_time() - began) / a_pass if a_pass else 0.0)
    return manifest


def _read(
    splits: Sequence[RowSplit],
    spill: Path,
    options: PackOptions,
    stated: Mapping[str, StatedColumn] | None,
    on_rows: OnRows,
) -> _Read:
    """The first pass."""
    facts = Facts(options)
    kinds = {name: column.kind for name, column in stated.items()} if stated else splits[0].kinds
    decoder = RowDecoder(kinds)
    total = 2 * sum(split.rows for split in splits)
    shufflers = {}
    cpu_seconds = 0.0

    def batches(split: RowSplit) -> Iterator[pa.RecordBatch]:
        nonlocal cpu_seconds
        began = time.process_time()
        for batch in read_batches(split, decoder):
            cpu_seconds += time.process_time() - began
            yield batch
            began = time.process_time()

    for split in splits:
        size = split.bytes * (_GZIP_RATIO if split.files[0].name.endswith(".gz") else 1)
        shufflers[split.name] = shuffler = RowShuffler(
            spill, split.name,
            seed=options.seed, expected_bytes=size, memory_bytes=options.memory_bytes,
        )  # fmt: skip
        where = split_dir(split.name)
        for batch in batches(split):
            facts.add(batch, where)
            shuffler.add(batch)
            on_rows(facts.rows, total)
    if not facts.rows:
        raise DataError(f"{splits[0].files[0].parent.parent}: no rows to pack")
    return _Read(splits, shufflers, facts, cpu_seconds / (1 if kinds else _TFX_BSL_TIMES))


def _plan(
    read: _Read, options: PackOptions, stated: Mapping[str, StatedColumn] | None
) -> tuple[PackedLayout, BlockMaker, dict[str, list[bytes]]]:
    """The layout, what makes its blocks, and the values of each vocabulary, by its path."""
    facts = read.facts
    decoders = {}
    for image in options.images:
        first = facts.columns[image.name].first if image.name in facts.columns else None
        decoders[image.name] = ImageDecoder(image, first or b"")
    shapes = {name: decoder.shape for name, decoder in decoders.items()}
    columns = packed_columns(facts, options, stated, shapes)
    layout = PackedLayout(columns, 1, options.seed)
    rows = options.block_rows or min(MAX_BLOCK_ROWS, max(1, TARGET_BLOCK_BYTES // layout.row_bytes))
    layout = replace(layout, block_rows=rows)
    values = {
        column.name: vocabulary(facts.columns.get(column.name, ColumnFacts()), filled=column.filled)
        for column in columns
        if column.vocabulary
    }
    arrays = {name: pa.array(v, pa.binary()) for name, v in values.items()}
    paths = {column.vocabulary: values[column.name] for column in columns if column.vocabulary}
    return layout, BlockMaker(layout, arrays, decoders), paths


def _write(
    read: _Read,
    layout: PackedLayout,
    maker: BlockMaker,
    folder: Path,
    options: PackOptions,
    on_rows: OnRows,
) -> dict[str, tuple[ShardPlan, tuple[Shard, ...]]]:
    """The second pass: the shards of each split."""
    written = {}
    done = read.rows
    for split in read.splits:
        shuffler = read.shufflers[split.name]
        plan = plan_shards(shuffler.rows * layout.row_bytes, options.shards, rows=shuffler.rows)
        sizes = [_block_sizes(n, layout.block_rows) for n in _parts(shuffler.rows, plan.shards)]
        blocks = shuffler.shuffled(size for shard in sizes for size in shard)
        shards = []
        for index, shard in enumerate(sizes):
            name = f"{split_dir(split.name)}/{shard_name(index, plan.shards)}"
            with ShardWriter(folder, name) as writer:
                for batch in itertools.islice(blocks, len(shard)):
                    record = encode_block(maker.block(batch), layout)
                    writer.write(frame_records(pa.array([record], pa.binary())))
                    done += batch.num_rows
                    on_rows(done, 2 * read.rows)
                shards.append(replace(writer.finish(), rows=sum(shard)))
        written[split.name] = plan, tuple(shards)
    return written


def _parts(rows: int, shards: int) -> list[int]:
    """The rows of each shard, as even as can be."""
    return [rows * (i + 1) // shards - rows * i // shards for i in range(shards)]


def _block_sizes(rows: int, block_rows: int) -> list[int]:
    """The rows of each block of a shard: all but the last are full."""
    return [min(block_rows, rows - start) for start in range(0, rows, block_rows)]


def _write_vocabulary(path: Path, values: Sequence[bytes]) -> None:
    for value in values:
        if b"\n" in value or b"\r" in value:
            raise DataError(
                f"{path.name.removesuffix('.txt')}: the value {value!r} has a line break, which a "
                "vocabulary of one value a line cannot hold; pack the column without ids"
            )
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(b"".join(value + b"\n" for value in values))


def _manifest(
    read: _Read, layout: PackedLayout, written: Mapping[str, tuple[ShardPlan, tuple[Shard, ...]]]
) -> Manifest:
    columns = tuple(ManifestColumn(c.name, c.kind, c.storage == "list") for c in layout.columns)
    reasons = [f"{name}: {plan.reason}" for name, (plan, _) in written.items()]
    digests = [digest for split in read.splits for digest in split.sha256]
    return Manifest(
        splits={name: shards for name, (_, shards) in written.items()},
        columns=columns,
        schema_sha256=_digest(json.dumps([asdict(column) for column in columns])),
        source_kind=SOURCE_KIND,
        source_fingerprint=_digest("".join(digests)),
        source_files=sum(len(split.files) for split in read.splits),
        account=RowAccount(
            read=read.rows,
            written={n: sum(s.rows for s in shards) for n, (_, shards) in written.items()},
        ),
        plan="; ".join(reasons),
        packed={**layout.to_dict(), EMPTY_COLUMNS: _empty_columns(read.facts, layout)},
    )


def _empty_columns(facts: Facts, layout: PackedLayout) -> list[str]:
    """Columns of the rows that are left out because no row has a value."""
    kept = {column.name for column in layout.columns}
    return sorted(n for n, seen in facts.columns.items() if not seen.rows and n not in kept)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
