"""Row Examples as they lie on disk: a folder in, serialised rows and Arrow batches out."""

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from penstock.components.errors import DataError, UsageError
from penstock.components.tfrecord.checked import checked_manifest
from penstock.components.tfrecord.example_proto import (
    has_sequences,
    is_example,
    is_plain_example,
)
from penstock.components.tfrecord.find import find_tfrecords
from penstock.components.tfrecord.manifest import MANIFEST_NAME
from penstock.components.tfrecord.records import read_records
from penstock.components.tfrecord.recovery import recover
from penstock.components.tfrecord.sharding import split_dir
from penstock.components.tfrecord.unlisted import check_unlisted

# Rows that are decoded at a time: fewer where they have more bytes than that together.
BATCH_ROWS = 4096
BATCH_BYTES = 2**24
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
        kinds: INT, FLOAT or BYTES of each feature of the rows; empty where it is not known.
    """

    name: str
    files: tuple[Path, ...]
    rows: int
    bytes: int
    sha256: tuple[str, ...]
    kinds: Mapping[str, str] = field(default_factory=dict)


def find_splits(folder: str, wanted: Sequence[str]) -> list[RowSplit]:
    """The splits of an Examples folder, Penstock's or any that TFX wrote: those wanted, else all.

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
    # TFRecords are ingested as they are, and may have features that the sampled ones lack.
    is_known = manifest.source_kind != "tfrecord"
    kinds = {column.name: column.kind for column in manifest.columns if is_known}
    return [
        RowSplit(
            name,
            tuple(root / shard.file for shard in shards),
            sum(shard.rows for shard in shards),
            sum(shard.bytes for shard in shards),
            tuple(shard.sha256 for shard in shards),
            kinds,
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


def read_batches(split: RowSplit, decoder: "RowDecoder") -> Iterator[pa.RecordBatch]:
    """The rows of a split, some thousand at a time.

    Raises:
        DataError: A shard is damaged, holds SequenceExamples or fewer rows than stated, or its
            rows cannot be decoded.
    """
    rows = 0
    for file in split.files:
        first = 0
        for payloads in _payloads(file):
            _require_examples(payloads, f"{file}: record", first)
            yield decoder.decode(payloads, f"{split_dir(split.name)}, rows {rows:,} and on")
            rows, first = rows + len(payloads), first + len(payloads)
    if rows != split.rows:
        raise DataError(
            f"{split.files[0].parent}: {rows:,} rows, the manifest says {split.rows:,}; "
            "`penstock verify` says where"
        )


def _payloads(file: Path) -> Iterator[list[bytes]]:
    # tf.data takes 4 us to hand over a record, this 1.5.
    some: list[bytes] = []
    size = 0
    for record in read_records(file):
        some.append(record.payload)
        size += len(record.payload)
        if len(some) == BATCH_ROWS or size > BATCH_BYTES:
            yield some
            some, size = [], 0
    if some:
        yield some


def _require_examples(payloads: Sequence[bytes], where: str, first: int) -> None:
    for number, payload in enumerate(payloads, first):
        if is_plain_example(payload):
            continue
        if not is_example(payload):
            raise DataError(
                f"{where} {number} is no tf.train.Example; `penstock inspect` shows what it is"
            )
        if has_sequences(payload):
            raise DataError(
                f"{where} {number}: holds SequenceExamples; only tf.train.Examples are packed"
            )


class RowDecoder:
    """Serialised rows in, Arrow columns of lists out.

    TensorFlow's parser takes a quarter of the time of tfx_bsl's, which needs not be told what the
    features are, and says what is wrong.

    Args:
        kinds: INT, FLOAT or BYTES of each feature to decode; empty decodes all there are.
    """

    def __init__(self, kinds: Mapping[str, str]) -> None:
        from tfx_bsl.coders.example_coder import ExamplesToRecordBatchDecoder

        self._decoder = ExamplesToRecordBatchDecoder()
        self._parse = _parser(kinds) if kinds else None

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
        import tensorflow as tf

        if self._parse is not None:
            # A feature may be of another kind than is said: then what it is, is to be said.
            with suppress(tf.errors.InvalidArgumentError):
                return self._parse(rows)
        try:
            batch = self._decoder.DecodeBatch(rows)
        except RuntimeError as error:
            raise DataError(f"{where}: {str(error).removeprefix('INVALID_ARGUMENT: ')}") from error
        order = sorted(batch.schema.names)
        return pa.RecordBatch.from_arrays(
            [batch.column(batch.schema.names.index(n)) for n in order], order
        )


def _parser(kinds: Mapping[str, str]) -> Callable[[list[bytes]], pa.RecordBatch]:
    """A function that decodes rows of these features by TensorFlow."""
    import tensorflow as tf

    dtypes = {"INT": tf.int64, "FLOAT": tf.float32, "BYTES": tf.string}
    spec = {
        name: tf.io.RaggedFeature(dtypes[kinds[name]], row_splits_dtype=tf.int64)
        for name in sorted(kinds)
    }

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string)], autograph=False)
    def parse(rows: tf.Tensor) -> list[tuple[tf.Tensor, tf.Tensor]]:
        parsed = tf.io.parse_example(rows, spec)
        return [(parsed[name].values, parsed[name].row_splits) for name in spec]

    def column(values: tf.Tensor, splits: tf.Tensor) -> pa.Array:
        if not len(values):
            return pa.nulls(len(splits) - 1)
        kind = pa.large_binary() if values.dtype == tf.string else None
        return pa.LargeListArray.from_arrays(
            pa.array(splits.numpy()), pa.array(values.numpy(), kind)
        )

    def decode(rows: list[bytes]) -> pa.RecordBatch:
        columns = [column(values, splits) for values, splits in parse(tf.constant(rows))]
        return pa.RecordBatch.from_arrays(columns, [*spec])

    return decode
