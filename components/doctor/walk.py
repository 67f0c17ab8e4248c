"""Reads all files of a set at a path once; `verify` and `inspect` share this walk.

With a manifest, each listed shard must exist with the listed size, digest and number of records,
and the splits must contain no other files. In any case, the checksums of every record that is read
must be right.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from penstock.components.doctor.read_file import FileReport, Look, Target, read_file
from penstock.components.errors import DataError
from penstock.components.files.find import SHARDS, find
from penstock.components.files.remote import is_remote
from penstock.components.packing.layout import PackedLayout
from penstock.components.tfrecord.checked import Scope, find_scopes, leftover, missing
from penstock.components.tfrecord.manifest import MANIFEST_NAME, Manifest
from penstock.components.tfrecord.unlisted import missing_members

OnProgress = Callable[[int, int], None]

_NO_MANIFEST = (
    f"no {MANIFEST_NAME}: an uncompressed file cut exactly between two records, or a file "
    "removed whole, cannot be seen; if Penstock wrote this, it was never finished"
)


@dataclass(frozen=True)
class Report:
    """Files at a path and their faults; `manifests` by folder.

    `set_notes` names checks that were not possible, with the reason. `skipped` are files beside
    the set that are no TFRecords.
    """

    path: str
    files: tuple[FileReport, ...]
    set_faults: tuple[str, ...] = ()
    set_notes: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()
    manifests: Mapping[str, Manifest] = field(default_factory=dict)

    @property
    def manifest(self) -> str | None:
        """Paths of the manifests, joined by commas; None without one."""
        return ", ".join(f"{folder}/{MANIFEST_NAME}" for folder in self.manifests) or None

    @property
    def faults(self) -> tuple[str, ...]:
        return self.set_faults + tuple(fault for file in self.files for fault in file.faults)

    @property
    def notes(self) -> tuple[str, ...]:
        return self.set_notes + tuple(note for file in self.files for note in file.notes)

    @property
    def records(self) -> int:
        """Number of records in all files; in each, up to the first fault that hides the rest."""
        return sum(file.records for file in self.files)

    @property
    def rows(self) -> int | None:
        """Number of rows in all files (a packed record has several); None if a fault hides some."""
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
        """If there are faults, raises one DataError with one line per fault."""
        if self.faults:
            raise DataError("\n".join(self.faults))


def walk(
    path: str, new_look: Callable[[int], Look], on_progress: OnProgress | None = None
) -> Report:
    """Reads all files at a path, as `verify` describes.

    `new_look` gets the number of files and returns the look at the records of one.
    """
    plan = _planned(path)
    total = sum(one.shard.bytes if one.shard else one.path.stat().st_size for one in plan.targets)
    done = 0

    def on_bytes(count: int) -> None:
        nonlocal done
        done += count
        if on_progress:
            on_progress(done, total)

    looks = [(target, new_look(len(plan.targets))) for target in plan.targets]
    files = tuple(read_file(target, look, on_bytes) for target, look in looks)
    return Report(
        path, files, tuple(plan.faults), tuple(plan.notes), tuple(plan.skipped), plan.manifests
    )


@dataclass
class _Plan:
    targets: list[Target] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    manifests: dict[str, Manifest] = field(default_factory=dict)


def _planned(path: str) -> _Plan:
    plan = _Plan()
    if is_remote(path):
        raise DataError(f"{path}: an address; copy it to this disk, as `penstock verify` does")
    try:
        scopes = find_scopes(path)
    except DataError as error:  # in the manifest; the files are still read
        plan.faults.append(str(error))
        scopes = []
    for scope in scopes:
        _add_listed(plan, scope)
    if not scopes:
        plan.notes += [] if plan.faults else [_NO_MANIFEST]
        found = find(path, SHARDS)
        plan.targets = [Target(Path(file)) for file in found.files]
        plan.skipped = found.ignored
        if found.files != (path,):
            plan.faults += missing_members(one.path for one in plan.targets)
    return plan


def _add_listed(plan: _Plan, scope: Scope) -> None:
    manifest = scope.manifest
    place = str(scope.root / MANIFEST_NAME)
    plan.manifests[str(scope.root)] = manifest
    plan.faults += _account_faults(place, manifest)
    layout = None
    if manifest.packed is not None:
        layout = PackedLayout.from_dict(manifest.packed, place)
        plan.faults += _vocabulary_faults(scope.root, layout)
    for shard in scope.shards:
        file = scope.root / shard.file
        if file.is_file():
            plan.targets.append(Target(file, shard, manifest.compression, layout))
        else:
            plan.faults.append(missing(file, shard))
    plan.faults += map(leftover, scope.leftovers)


def _account_faults(path: str, manifest: Manifest) -> Iterator[str]:
    for split in sorted(manifest.splits.keys() | manifest.account.written.keys()):
        listed = sum(shard.rows for shard in manifest.splits.get(split, ()))
        written = manifest.account.written.get(split, 0)
        if listed != written:
            yield (
                f"{path}: split {split!r}: the shards are listed with {listed:,} rows, the "
                f"account says {written:,} were written"
            )
    quarantine = manifest.quarantine
    if quarantine is not None and not Path(path).with_name(quarantine).exists():
        yield f"{path}: the rejected rows that it names, {quarantine}, are missing"


def _vocabulary_faults(root: Path, layout: PackedLayout) -> Iterator[str]:
    for column in layout.columns:
        if column.vocabulary is not None and not (root / column.vocabulary).is_file():
            yield f"{root / column.vocabulary}: the vocabulary of column {column.name!r} is missing"
