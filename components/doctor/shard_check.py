"""One file checked to its last byte: a path and what it must hold in, its faults out."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from penstock.components.errors import DataError
from penstock.components.files.content import Content, HashingStream
from penstock.components.packing.block import block_rows, decode_block, is_packed
from penstock.components.packing.layout import PackedLayout
from penstock.components.tfrecord.compression import CHUNK_BYTES
from penstock.components.tfrecord.example_proto import has_sequences, is_example, parse_example
from penstock.components.tfrecord.manifest import Shard
from penstock.components.tfrecord.records import Record, RecordReader, open_file

# Damaged payloads that are named one by one; the others are counted in one line more.
MAX_NAMED_RECORDS = 100
# Every record's outermost layer is checked (0.3 us). Parsing it whole takes 2-8 us, more
# than all else together, and a file seldom mixes kinds: the first hundred records, then
# every hundredth.
_PARSED_FIRST = 100
_PARSED_EVERY = 100


@dataclass(frozen=True)
class FileReport:
    """What one file holds and what is wrong with it.

    Attributes:
        file: Its path.
        bytes: Its size on disk.
        compression: `""`, `"GZIP"` or `"ZLIB"`.
        records: Records in it, damaged ones included, up to a fault that hides the rest.
        rows: Rows in them, of packed records many each; None where a fault hides some.
        faults: One line each, in file order.
    """

    file: str
    bytes: int
    compression: str
    records: int
    rows: int | None
    faults: tuple[str, ...]


def check_shard(
    path: Path,
    *,
    shard: Shard | None = None,
    compression: str | None = None,
    layout: PackedLayout | None = None,
    on_bytes: Callable[[int], None],
) -> FileReport:
    """Check one file, against its entry in the manifest where there is one.

    The manifest's `compression` is None without one, the `layout` of packed records where records
    are rows. `on_bytes` is called with the number of bytes each time some were read.
    """
    try:
        with open_file(path) as raw:
            file = HashingStream(raw, on_bytes)
            reader = RecordReader(file, str(path))
            found = _read(reader, str(path), layout, has_manifest=shard is not None)
            while file.read(CHUNK_BYTES):  # what a fault left unread, for size and digest
                pass
    except DataError as error:
        return FileReport(str(path), 0, "", 0, None, (str(error),))
    held = file.content()
    faults = list(found.faults)
    if shard is not None:
        noun = "rows" if layout else "records"
        faults += [f"{path}: {fault}" for fault in _differences(held, found, shard, noun)]
        if held.size and reader.compression != compression:
            faults.append(
                f"{path}: compression {reader.compression or 'none'}, the manifest says "
                f"{compression or 'none'}"
            )
    elif not held.size:
        faults.append(f"{path}: zero bytes; an empty shard cannot be told from a lost one")
    return FileReport(
        str(path), held.size, reader.compression, found.records, found.rows, tuple(faults)
    )


class _Records(NamedTuple):
    """What the records of a file came to; `rows` is None where a fault hides some."""

    records: int
    rows: int | None
    faults: tuple[str, ...]


class _Examples:
    """What a payload that is a row must be; every one counts as a row, whatever it is.

    Without a manifest, blocks of packed rows pass for what their header says.

    Attributes:
        has_packed: Whether there were such.
    """

    def __init__(self, *, has_manifest: bool) -> None:
        self.has_packed = False
        self._has_manifest = has_manifest
        self._first_sequence: Record | None = None
        self._sequences = self._others = 0

    def rows(self, record: Record) -> int:
        """The rows of a record; DataError if it is not what it must be."""
        if is_packed(record.payload) and not self._has_manifest:
            self.has_packed = True
            return block_rows(record.payload)
        often = record.number < _PARSED_FIRST or record.number % _PARSED_EVERY == 0
        known = parse_example(record.payload) is not None if often else is_example(record.payload)
        if not known:
            raise DataError(
                "payload is neither a tf.train.Example nor a SequenceExample, it begins with "
                f"{record.payload[:16]!r}"
            )
        if has_sequences(record.payload):
            self._sequences += 1
            self._first_sequence = self._first_sequence or record
        else:
            self._others += 1
        return 1

    @property
    def mixture(self) -> str | None:
        """Where Examples have SequenceExamples among them, whose lists readers of Examples drop.

        The other way round is right: a SequenceExample need not have any list.
        """
        if self._first_sequence is None or self._sequences > self._others:
            return None
        first = self._first_sequence
        return (
            f"record {first.number} at offset {first.offset}: a SequenceExample among Examples "
            f"({self._sequences:,} of {self._sequences + self._others:,} records are so)"
        )


def _read(
    reader: RecordReader, name: str, layout: PackedLayout | None, *, has_manifest: bool
) -> _Records:
    """Check every record: a block of packed rows, which fits the layout, or else an Example."""
    examples = _Examples(has_manifest=has_manifest)
    damaged: list[str] = []
    foreign: list[str] = []
    later: list[str] = []
    foreign_count = good = rows = 0
    try:
        for record in reader.records(on_bad_payload=lambda error: damaged.append(str(error))):
            good += 1
            try:
                rows += (
                    decode_block(record.payload, layout).rows if layout else examples.rows(record)
                )
            except DataError as error:
                foreign_count += 1
                place = f"{name}: record {record.number} at offset {record.offset}"
                foreign = foreign or [f"{place}: {error}"]
    except DataError as error:
        later.append(str(error))
    records = good + len(damaged)
    is_hidden = later or ((layout or examples.has_packed) and (damaged or foreign))
    more = len(damaged) - MAX_NAMED_RECORDS
    if more > 0:
        damaged[MAX_NAMED_RECORDS:] = [f"{name}: {more:,} more records have damaged payloads"]
    if foreign:
        later.append(f"{foreign[0]} ({foreign_count:,} of {good:,} records are so)")
    if examples.mixture:
        later.append(f"{name}: {examples.mixture}")
    # What is damaged or foreign among Examples counts as a row, as the manifest has it.
    known_rows = None if is_hidden else rows + records - good + foreign_count
    return _Records(records, known_rows, (*damaged, *later))


def _differences(held: Content, found: _Records, shard: Shard, noun: str) -> Iterator[str]:
    """Where a file and its rows are not what the manifest says."""
    if found.rows is not None and found.rows != shard.rows:
        fewer = "; it was cut at the end of a record" if found.rows < shard.rows else ""
        yield f"{found.rows:,} {noun}, the manifest says {shard.rows:,}{fewer}"
    if held.size != shard.bytes:
        yield f"{held.size:,} bytes, the manifest says {shard.bytes:,}"
    elif held.sha256.hex() != shard.sha256:
        yield (
            f"sha256 {held.sha256.hex()[:16]}..., the manifest says {shard.sha256[:16]}...; "
            "the content was altered"
        )
