"""Checks every byte of a set of shards at a path, and returns a report of all faults.

With a manifest, each listed shard must exist with the listed size, digest and number of rows, and
the folders of the splits must contain no other files. In any case, the checksums of every record
that is read must be right. Records with right checksums that are neither Examples nor
SequenceExamples lead to a note, not a fault: other programs keep other payloads in TFRecords.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from penstock.components.doctor.read_file import FileReport, Look, Target, read_file
from penstock.components.errors import DataError
from penstock.components.files.find import SHARDS, find
from penstock.components.files.remote import is_remote
from penstock.components.packing.layout import PackedLayout
from penstock.components.tfrecord.checked import Scope, find_scopes, leftover, missing
from penstock.components.tfrecord.example_proto import (
    has_sequences,
    is_example,
    parse_example,
    step_kinds,
)
from penstock.components.tfrecord.feature_kind import FeatureKind
from penstock.components.tfrecord.manifest import MANIFEST_NAME, Manifest
from penstock.components.tfrecord.records import Record
from penstock.components.tfrecord.unlisted import missing_members

OnProgress = Callable[[int, int], None]

_NO_MANIFEST = (
    f"no {MANIFEST_NAME}: an uncompressed file cut exactly between two records, or a file "
    "removed whole, cannot be seen; if Penstock wrote this, it was never finished"
)
# The outermost layer of every record is checked (0.3 us per record). A full parse takes 2-8 us per
# record, more than all other checks, and files rarely mix kinds; so only the first hundred records,
# then every hundredth, and all SequenceExamples are parsed in full.
_PARSED_FIRST = 100
_PARSED_EVERY = 100


@dataclass(frozen=True)
class Report:
    """Files at a path and their faults; `manifests` maps each folder to its manifest.

    `set_notes` names checks that were not possible, with the reason. `skipped` are files beside the
    shards that are not TFRecords.
    """

    path: str
    files: tuple[FileReport, ...]
    set_faults: tuple[str, ...] = ()
    set_notes: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()
    manifests: Mapping[str, Manifest] = field(default_factory=dict)

    @property
    def manifest(self) -> str | None:
        """Paths of the manifests, joined by commas; None if there are none."""
        return ", ".join(f"{folder}/{MANIFEST_NAME}" for folder in self.manifests) or None

    @property
    def faults(self) -> tuple[str, ...]:
        return self.set_faults + tuple(fault for file in self.files for fault in file.faults)

    @property
    def notes(self) -> tuple[str, ...]:
        return self.set_notes + tuple(note for file in self.files for note in file.notes)

    @property
    def records(self) -> int:
        """Number of records in all files; a fault may hide the records after it in its file."""
        return sum(file.records for file in self.files)

    @property
    def rows(self) -> int | None:
        """Number of rows in all files, several per packed record; None if some were not read."""
        rows = [file.rows for file in self.files if file.rows is not None]
        return sum(rows) if len(rows) == len(self.files) else None

    @property
    def bytes(self) -> int:
        return sum(file.bytes for file in self.files)

    @property
    def is_exact(self) -> bool:
        return all(file.is_exact for file in self.files)

    def to_json(self) -> str:
        names = ("manifest", "faults", "notes", "records", "rows", "bytes", "is_exact")
        return json.dumps({**asdict(self), **{n: getattr(self, n) for n in names}}, indent=1)

    def raise_faults(self) -> None:
        if self.faults:
            raise DataError("\n".join(self.faults))


def verify(path: str, *, on_progress: OnProgress | None = None) -> Report:
    """Checks an Examples artifact, a folder of TFRecords, one file, or files that match a glob.

    A split's folder or a shard inside an artifact is checked against the artifact's manifest.

    Args:
        path: A file, a folder or a glob.
        on_progress: Called after every read of 1 MiB or less, with the number of bytes read so far
            and the size of all files.

    Raises:
        DataError: `path` is an address, or there are no files to check.
    """
    kinds: dict[str, FeatureKind] = {}
    return walk(path, lambda files: _Examples(kinds), on_progress)


def walk(
    path: str, new_look: Callable[[int], Look], on_progress: OnProgress | None = None
) -> Report:
    """Reads the files at a path that `verify` checks; `inspect` calls this function as well.

    `new_look` gets the number of files and returns the `Look` for the records of one file.
    """
    report, targets = _planned(path)
    total = sum(one.shard.bytes if one.shard else one.path.stat().st_size for one in targets)
    done = 0

    def on_bytes(count: int) -> None:
        nonlocal done
        done += count
        if on_progress:
            on_progress(done, total)

    files = (read_file(target, new_look(len(targets)), on_bytes) for target in targets)
    return replace(report, files=tuple(files))


def _planned(path: str) -> tuple[Report, list[Target]]:
    """Returns a report that has no files yet, and the files to read."""
    if is_remote(path):
        raise DataError(f"{path}: an address; copy it to this disk, as `penstock verify` does")
    faults, notes, skipped, targets = list[str](), list[str](), list[str](), list[Target]()
    scopes: list[Scope] = []
    try:
        scopes = find_scopes(path)
    except DataError as error:  # error in the manifest; the files are read all the same
        faults.append(str(error))
    for scope in scopes:
        layout = None
        if scope.manifest.packed is not None:
            place = str(scope.root / MANIFEST_NAME)
            layout = PackedLayout.from_dict(scope.manifest.packed, place)
        faults += _faults_of(scope, layout)
        targets += (
            Target(scope.root / shard.file, shard, scope.manifest.compression, layout)
            for shard in scope.shards
            if (scope.root / shard.file).is_file()
        )
    if not scopes:
        notes += [] if faults else [_NO_MANIFEST]
        found = find(path, SHARDS)
        targets, skipped = [Target(Path(file)) for file in found.files], found.ignored
        if found.files != (path,):
            faults += missing_members(one.path for one in targets)
    manifests = {str(scope.root): scope.manifest for scope in scopes}
    return Report(path, (), tuple(faults), tuple(notes), tuple(skipped), manifests), targets


def _faults_of(scope: Scope, layout: PackedLayout | None) -> Iterator[str]:
    """Yields the faults of a set outside its shards: in its row counts and its list of files."""
    root, manifest = scope.root, scope.manifest
    for split in sorted(manifest.splits.keys() | manifest.account.written.keys()):
        listed = sum(shard.rows for shard in manifest.splits.get(split, ()))
        written = manifest.account.written.get(split, 0)
        if listed != written:
            yield (
                f"{root / MANIFEST_NAME}: split {split!r}: the shards are listed with {listed:,} "
                f"rows, the account says {written:,} were written"
            )
    if manifest.quarantine is not None and not (root / manifest.quarantine).exists():
        yield (
            f"{root / MANIFEST_NAME}: the rejected rows that it names, {manifest.quarantine}, are "
            "missing"
        )
    for column in layout.columns if layout else ():
        if column.vocabulary is not None and not (root / column.vocabulary).is_file():
            yield f"{root / column.vocabulary}: the vocabulary of column {column.name!r} is missing"
    for shard in scope.shards:
        if not (root / shard.file).is_file():
            yield missing(root / shard.file, shard)
    yield from map(leftover, scope.leftovers)


class _Examples(Look):
    """Checks that the payloads of a file are all Examples or all SequenceExamples.

    `kinds` maps each feature list to the kind of values in its steps, for all files together.
    """

    def __init__(self, kinds: dict[str, FeatureKind]) -> None:
        self._step_kinds = kinds
        self._first_sequence: Record | None = None
        self._sequences = self._records = self._foreign = self._misfits = 0
        self._note = self._fault = ""

    def add(self, record: Record) -> bool:
        self._records += 1
        often = record.number < _PARSED_FIRST or record.number % _PARSED_EVERY == 0
        payload = record.payload
        if not (parse_example(payload) is not None if often else is_example(payload)):
            self._foreign += 1
            self._note = self._note or (
                f"{record.place}: payload is neither a tf.train.Example nor a SequenceExample, it "
                f"begins with {payload[:16]!r}"
            )
        elif has_sequences(payload):
            self._sequences += 1
            self._first_sequence = self._first_sequence or record
            if fault := self._misfit(payload):
                self._misfits += 1
                self._fault = self._fault or f"{record.place}: {fault}"
        return True

    def _misfit(self, payload: bytes) -> str | None:
        """Returns a fault if the steps of a list differ in kind, which no parser accepts."""
        for name, kinds in step_kinds(parse_example(payload)):
            for kind in kinds:
                expected = self._step_kinds.setdefault(name, kind)
                if kind is not expected:
                    return (
                        f"feature list {name!r} has a step of {kind.value}, expected "
                        f"{expected.value} as in earlier steps; write the record again"
                    )
        return None

    def findings(self, name: str) -> tuple[list[str], list[str]]:
        """Returns faults and notes.

        A mix of Examples and SequenceExamples is a fault, except if most records are
        SequenceExamples: the others may then be SequenceExamples without lists, which look like
        Examples.
        """
        faults, notes = [], []
        if self._note:
            notes.append(f"{name}: {self._note} ({self._of_all(self._foreign)})")
        if self._fault:
            faults.append(f"{name}: {self._fault} ({self._of_all(self._misfits)})")
        first = self._first_sequence
        if first and 2 * self._sequences <= self._records - self._foreign:
            faults.append(
                f"{name}: {first.place}: a SequenceExample among Examples "
                f"({self._of_all(self._sequences)})"
            )
        return faults, notes

    def _of_all(self, count: int) -> str:
        return f"{count:,} of {self._records:,} records are so"
