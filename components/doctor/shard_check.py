"""Checks every byte of one file against its manifest entry, and returns faults."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from penstock.components.errors import DataError
from penstock.components.files.content import Content, HashingStream
from penstock.components.packing.arrow_check import is_packed, packed_rows
from penstock.components.packing.layout import PackedLayout
from penstock.components.tfrecord.compression import CHUNK_BYTES
from penstock.components.tfrecord.example_proto import has_sequences, is_example, parse_example
from penstock.components.tfrecord.manifest import Shard
from penstock.components.tfrecord.records import Record, RecordReader, open_file

# Maximum number of damaged payloads to name; one more line counts the others.
MAX_NAMED_RECORDS = 100
# The outermost layer of every record is checked (0.3 us). A full parse takes 2-8 us, more than all
# other checks, and files rarely mix kinds; so only the first hundred records and then every
# hundredth are.
_PARSED_FIRST = 100
_PARSED_EVERY = 100
_KINDS = {"int64_list": "INT", "float_list": "FLOAT", "bytes_list": "BYTES"}


@dataclass(frozen=True)
class FileReport:
    """Size on disk, records and faults of one file; one line per fault, in file order.

    After a fault that hides the rest of the file, `records` counts no further and `rows` is None.
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
    step_kinds: dict[str, str] | None = None,
    on_bytes: Callable[[int], None],
) -> FileReport:
    """Checks one file; `shard` and `compression` are None without a manifest.

    `layout` is the layout of packed records, or None if each record is one row. `step_kinds`
    collects the kind (INT, FLOAT, BYTES) of each feature list's steps, over all files.
    """
    try:
        if is_packed(path):
            return _check_packed(path, shard, layout, on_bytes)
        if layout is not None:
            raise DataError(f"{path}: is no Arrow file; pack again")
        with open_file(path) as raw:
            file = HashingStream(raw, on_bytes)
            reader = RecordReader(file, str(path))
            examples = _Examples({} if step_kinds is None else step_kinds)
            found = _read(reader, str(path), examples)
            while file.read(CHUNK_BYTES):  # after a fault, read on for size and digest
                pass
    except DataError as error:
        return FileReport(str(path), 0, "", 0, None, (str(error),))
    held = file.content()
    faults = list(found.faults)
    if shard is not None:
        faults += [f"{path}: {fault}" for fault in _differences(held, found, shard, "records")]
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


def _check_packed(
    path: Path,
    shard: Shard | None,
    layout: PackedLayout | None,
    on_bytes: Callable[[int], None],
) -> FileReport:
    with path.open("rb") as raw:
        file = HashingStream(raw, on_bytes)
        while file.read(CHUNK_BYTES):
            pass
    held, faults = file.content(), []
    found = _Records(0, None, ())
    try:
        found = _Records(*packed_rows(path, layout), ())
    except DataError as error:
        faults.append(str(error))
    if shard is not None:
        faults += [f"{path}: {fault}" for fault in _differences(held, found, shard, "rows")]
    return FileReport(str(path), held.size, "", found.records, found.rows, tuple(faults))


class _Records(NamedTuple):
    """Records, rows and faults of a file; `rows` is None if a fault hides some rows."""

    records: int
    rows: int | None
    faults: tuple[str, ...]


class _Examples:
    """Checks payloads that are rows; each record counts as a row, whatever it holds."""

    def __init__(self, step_kinds: dict[str, str]) -> None:
        self._step_kinds = step_kinds
        self._first_sequence: Record | None = None
        self._sequences = self._others = 0

    def rows(self, record: Record) -> int:
        """Returns the number of rows in a record; DataError if it is not an Example."""
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
            self._check_steps(record.payload)
        else:
            self._others += 1
        return 1

    def _check_steps(self, payload: bytes) -> None:
        """Raises DataError if steps of one feature list differ in kind, which no parser accepts."""
        message: Any = parse_example(payload)
        for name, steps in message.feature_lists.feature_list.items():
            for index, step in enumerate(steps.feature):
                if (found := step.WhichOneof("kind")) is None:
                    continue
                kind = _KINDS[found]
                expected = self._step_kinds.setdefault(name, kind)
                if kind != expected:
                    raise DataError(
                        f"feature list {name!r}, step {index} is {kind}, expected {expected} as in "
                        "earlier steps; write the record again"
                    )

    @property
    def mixture(self) -> str | None:
        """Returns a fault if there are SequenceExamples among Examples, whose readers drop lists.

        Examples among SequenceExamples are no fault: a SequenceExample may have no lists.
        """
        if self._first_sequence is None or self._sequences > self._others:
            return None
        first = self._first_sequence
        return (
            f"record {first.number} at offset {first.offset}: a SequenceExample among Examples "
            f"({self._sequences:,} of {self._sequences + self._others:,} records are so)"
        )


def _read(reader: RecordReader, name: str, examples: _Examples) -> _Records:
    """Checks every record as an Example."""
    damaged: list[str] = []
    foreign: list[str] = []
    later: list[str] = []
    foreign_count = good = rows = 0
    try:
        for record in reader.records(on_bad_payload=lambda error: damaged.append(str(error))):
            good += 1
            try:
                rows += examples.rows(record)
            except DataError as error:
                foreign_count += 1
                place = f"{name}: record {record.number} at offset {record.offset}"
                foreign = foreign or [f"{place}: {error}"]
    except DataError as error:
        later.append(str(error))
    records = good + len(damaged)
    is_hidden = bool(later)
    more = len(damaged) - MAX_NAMED_RECORDS
    if more > 0:
        damaged[MAX_NAMED_RECORDS:] = [f"{name}: {more:,} more records have damaged payloads"]
    if foreign:
        later.append(f"{foreign[0]} ({foreign_count:,} of {good:,} records are so)")
    if examples.mixture:
        later.append(f"{name}: {examples.mixture}")
    # Damaged records, and others that are not Examples, count as rows, as in the manifest.
    known_rows = None if is_hidden else rows + records - good + foreign_count
    return _Records(records, known_rows, (*damaged, *later))


def _differences(held: Content, found: _Records, shard: Shard, noun: str) -> Iterator[str]:
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
