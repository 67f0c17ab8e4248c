"""Row Examples as they lie on disk: a folder in, serialised rows and Arrow batches out."""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from penstock.components.errors import DataError, UsageError
from penstock.components.tfrecord.checked import checked_manifest
from penstock.components.tfrecord.example_proto import has_sequences, is_example
from penstock.components.tfrecord.find import find_tfrecords
from penstock.components.tfrecord.manifest import MANIFEST_NAME
from penstock.components.tfrecord.recovery import recover
from penstock.components.tfrecord.sharding import split_dir
from penstock.components.tfrecord.unlisted import check_unlisted, find_damage

# Rows that are decoded at a time, and the bytes that they may have together.
BATCH_ROWS = 2048
_HASH_BYTES = 2**20


@dataclass(frozen=True)
class RowSplit:
    """One split of row Examples.

    Attributes:
        name: The split's.
        files: Its shards, in order.
        rows: Rows in it, as the manifest says or as they were counted.
        bytes: Size of the shards on disk.
        sha256: Digests of the shards' bytes, in order.
    """

    name: str
    files: tuple[Path, ...]
    rows: int
    bytes: int
    sha256: tuple[str, ...]


def find_splits(folder: str, wanted: Sequence[str]) -> list[RowSplit]:
    """The splits of an Examples folder, Penstock's or any that TFX wrote.

    Args:
        folder: Has `Split-*/`, and a `manifest.json` if Penstock wrote it.
        wanted: Names of splits; none takes all.

    Raises:
        DataError: There are none, or a shard is missing or cut.
        UsageError: There is no such split.
    """
    root = Path(folder)
    recover(root)
    if (root / MANIFEST_NAME).is_file():
        found = _from_manifest(root)
    elif root.is_dir():
        found = [_from_folder(path) for path in sorted(root.glob(split_dir("*")))]
    else:
        raise DataError(f"{folder}: no such folder of Examples")
    if not found:
        raise DataError(f"{folder}: no {split_dir('NAME')} folder in there; is it Examples?")
    names = [split.name for split in found]
    if unknown := [name for name in wanted if name not in names]:
        raise UsageError(f"{folder}: no split {unknown[0]!r}; it has {', '.join(names)}")
    return [split for split in found if not wanted or split.name in wanted]


def _from_manifest(root: Path) -> list[RowSplit]:
    manifest = checked_manifest(root)
    if manifest.packed is not None:
        raise UsageError(f"{root}: is packed already; name the row Examples that it was made from")
    return [
        RowSplit(
            name,
            tuple(root / shard.file for shard in shards),
            sum(shard.rows for shard in shards),
            sum(shard.bytes for shard in shards),
            tuple(shard.sha256 for shard in shards),
        )
        for name, shards in manifest.splits.items()
    ]


def _from_folder(folder: Path) -> RowSplit:
    files = find_tfrecords(str(folder)).files
    return RowSplit(
        folder.name.removeprefix(split_dir("")),
        files,
        sum(check_unlisted([str(file) for file in files])),
        sum(file.stat().st_size for file in files),
        tuple(_sha256(file) for file in files),
    )


def _sha256(file: Path) -> str:
    digest = hashlib.sha256()
    with file.open("rb") as content:
        while block := content.read(_HASH_BYTES):
            digest.update(block)
    return digest.hexdigest()


def read_rows(split: RowSplit) -> Iterator[list[bytes]]:
    """The serialised rows of a split, some thousand at a time.

    Raises:
        DataError: A shard is damaged, holds SequenceExamples, or fewer rows than stated.
    """
    import tensorflow as tf

    rows = before = 0
    for file in split.files:
        compression = "GZIP" if file.name.endswith(".gz") else ""
        records = tf.data.TFRecordDataset(str(file), compression).batch(BATCH_ROWS).prefetch(2)
        try:
            for batch in records.as_numpy_iterator():
                payloads = batch.tolist()
                _require_examples(payloads, f"{file}: record", rows - before)
                rows += len(payloads)
                yield payloads
        except tf.errors.DataLossError as error:
            raise DataError(find_damage([str(file)]) or f"{file}: {error.message}") from error
        before = rows
    if rows != split.rows:
        raise DataError(
            f"{split.files[0].parent}: {rows:,} rows, the manifest says {split.rows:,}; "
            "`penstock verify` says where"
        )


def _require_examples(payloads: Sequence[bytes], where: str, first: int) -> None:
    for number, payload in enumerate(payloads, first):
        if not is_example(payload):
            raise DataError(
                f"{where} {number} is no tf.train.Example; `penstock inspect` shows what it is"
            )
        if has_sequences(payload):
            raise DataError(
                f"{where} {number}: holds SequenceExamples; only tf.train.Examples are packed"
            )


class RowDecoder:
    """Serialised rows in, Arrow columns of lists out, by tfx_bsl's C++ decoder."""

    def __init__(self) -> None:
        from tfx_bsl.coders.example_coder import ExamplesToRecordBatchDecoder

        self._decoder = ExamplesToRecordBatchDecoder()

    def decode(self, rows: list[bytes], where: str) -> pa.RecordBatch:
        """Decode some rows.

        Args:
            rows: Serialised Examples.
            where: What messages call them.

        Returns:
            A column `large_list<int64 | float | large_binary>` a feature, or of type null where
            no row has a value; sorted by name.

        Raises:
            DataError: They are no Examples, or a feature has two kinds.
        """
        try:
            batch = self._decoder.DecodeBatch(rows)
        except RuntimeError as error:
            raise DataError(f"{where}: {str(error).removeprefix('INVALID_ARGUMENT: ')}") from error
        order = sorted(batch.schema.names)
        return pa.RecordBatch.from_arrays(
            [batch.column(batch.schema.names.index(n)) for n in order], order
        )
