"""Checks every byte of a set of shards at a path, and returns a report of all faults.

With a manifest, each listed shard must exist with the listed size, digest and number of records,
and the splits must contain no other files. In any case, the checksums of every record must be
right, and every payload must be an Example or SequenceExample or, if the manifest says so, a block
of packed rows with its layout.
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from penstock.components.doctor.shard_check import FileReport, check_shard
from penstock.components.errors import DataError
from penstock.components.files.find import SHARDS, find
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
class VerifyReport:
    """Result of a verification; `manifest` joins the paths of several by commas.

    `notes` names checks that were not possible, with the reason.
    """

    path: str
    manifest: str | None
    files: tuple[FileReport, ...]
    set_faults: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()

    @property
    def faults(self) -> tuple[str, ...]:
        return self.set_faults + tuple(fault for file in self.files for fault in file.faults)

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

    def to_json(self) -> str:
        totals = {name: getattr(self, name) for name in ("faults", "records", "rows", "bytes")}
        return json.dumps({**asdict(self), **totals}, indent=1)

    def raise_faults(self) -> None:
        """If there are faults, raises one DataError with one line per fault."""
        if self.faults:
            raise DataError("\n".join(self.faults))


class _Meter:
    def __init__(self, total: int, on_progress: OnProgress | None) -> None:
        self._total = total
        self._done = 0
        self._on_progress = on_progress

    def add(self, count: int) -> None:
        self._done += count
        if self._on_progress:
            self._on_progress(self._done, self._total)


def verify(path: str, *, on_progress: OnProgress | None = None) -> VerifyReport:
    """Checks an Examples artifact, a folder of TFRecords, one file, or files that match a glob.

    A split's folder or a shard inside an artifact is checked against the artifact's manifest.

    Args:
        path: A file, a folder or a glob.
        on_progress: Called after every read of 1 MiB or less, with the number of bytes read so far
            and the size of all files.

    Raises:
        DataError: There are no files to check.
    """
    try:
        scopes = find_scopes(path)
    except DataError as error:  # in the manifest; the files are still checked
        report = _verify_unlisted(path, on_progress)
        return replace(report, set_faults=(str(error), *report.set_faults), notes=())
    if not scopes:
        return _verify_unlisted(path, on_progress)
    meter = _Meter(sum(shard.bytes for scope in scopes for shard in scope.shards), on_progress)
    reports = [_verify_listed(path, scope, meter) for scope in scopes]
    return VerifyReport(
        path,
        ", ".join(str(report.manifest) for report in reports),
        tuple(file for report in reports for file in report.files),
        tuple(fault for report in reports for fault in report.set_faults),
    )


def _verify_listed(path: str, scope: Scope, meter: _Meter) -> VerifyReport:
    manifest_path = str(scope.root / MANIFEST_NAME)
    faults = [*_account_faults(manifest_path, scope.manifest)]
    layout = None
    if scope.manifest.packed is not None:
        layout = PackedLayout.from_dict(scope.manifest.packed, manifest_path)
        faults += _vocabulary_faults(scope.root, layout)
    files = []
    step_kinds: dict[str, str] = {}
    for shard in scope.shards:
        file = scope.root / shard.file
        if file.is_file():
            files.append(
                check_shard(
                    file,
                    shard=shard,
                    compression=scope.manifest.compression,
                    layout=layout,
                    step_kinds=step_kinds,
                    on_bytes=meter.add,
                )
            )
        else:
            faults.append(missing(file, shard))
    faults += map(leftover, scope.leftovers)
    return VerifyReport(path, manifest_path, tuple(files), tuple(faults))


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


def _verify_unlisted(path: str, on_progress: OnProgress | None) -> VerifyReport:
    found = find(path, SHARDS)
    files = [Path(file) for file in found.files]
    one_file = found.files == (path,)
    step_kinds: dict[str, str] = {}
    meter = _Meter(sum(file.stat().st_size for file in files), on_progress)
    return VerifyReport(
        path,
        None,
        tuple(check_shard(f, step_kinds=step_kinds, on_bytes=meter.add) for f in files),
        () if one_file else tuple(missing_members(files)),
        (_NO_MANIFEST,),
        tuple(found.ignored),
    )
