"""Finds the files of an input: from TFX's patterns, a folder of Examples, or a packed folder.

If there is a manifest, readers open the shards in its list, and reject shards that differ from it.
"""

import os
import posixpath
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

import tensorflow as tf

from penstock.components.errors import DataError, UsageError
from penstock.components.files.address import scheme_of
from penstock.components.files.content import hash_file
from penstock.components.files.spool import local_folder
from penstock.components.packing.layout import PackedLayout
from penstock.components.tfrecord.checked import check_listed, checked_manifest, no_rows
from penstock.components.tfrecord.manifest import COUNTED, MANIFEST_NAME, Manifest
from penstock.components.tfrecord.recovery import recover
from penstock.components.tfrecord.sharding import split_dir, split_of
from penstock.components.tfrecord.unlisted import NO_SHARDS, check_unlisted

# Schemes of stores whose shards are copied to the local disk before they are read; TensorFlow reads
# gs:// directly.
_COPIED = ("s3",)

# A folder with a manifest, or file paths and patterns.
InputSource = str | os.PathLike[str] | Sequence[str]


@dataclass(frozen=True)
class InputFiles:
    """The files of one split, sorted; with a manifest, empty shards are left out."""

    files: tuple[str, ...]
    shard_rows: tuple[int, ...] | None  # None if unknown
    sha256: tuple[str, ...] | None = None  # from the manifest; None for unlisted files
    may_mix: bool = True  # whether SequenceExamples may be among the Examples

    @property
    def rows(self) -> int | None:
        return None if self.shard_rows is None else sum(self.shard_rows)

    @property
    def sizes(self) -> list[int]:
        return [tf.io.gfile.stat(file).length for file in self.files]

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """Returns (path, compression) of each file, for `tf.data.TFRecordDataset`."""
        return [(file, "GZIP" if file.endswith(".gz") else "") for file in self.files]

    def counted(self) -> tuple[int, ...]:
        """Returns the number of rows of each file.

        If the numbers are unknown, the rows are counted, which takes up to about 2 us per row.
        """
        if self.shard_rows is not None:
            return self.shard_rows
        if not any("://" in file for file in self.files):
            return check_unlisted(self.files)
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            return tuple(pool.map(_count_file, *zip(*self.pairs, strict=True)))

    def contents(self) -> list[list[str]]:
        """Returns `[name, digest]` of each file; if they change, a training cannot resume.

        The digest of a file listed in a manifest is read from the manifest. For an unlisted local
        file, the digest is computed from the file's bytes, which takes 0.8 ms per MiB. For an
        unlisted remote file, the size and the time of change replace the digest.
        """
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            digests = self.sha256 or pool.map(_digest, self.files)
        names = ["/".join(file.split("/")[-2:]) for file in self.files]
        return [[name, digest[:16]] for name, digest in zip(names, digests, strict=True)]


def find_input(source: InputSource, *, split: str) -> InputFiles:
    """Finds shards of one Example per row, in a folder with a manifest or by paths and patterns."""
    if isinstance(source, str | os.PathLike):
        parts = [_from_manifest(os.fspath(source), split)]
    else:
        parts = [_from_pattern(pattern) for pattern in source]
    if not parts:
        raise DataError("no files to read: the list of file patterns is empty")
    found: dict[str, Any] = {}  # by path, because patterns may match the same files
    for part in parts:
        facts = zip_longest(part.files, part.shard_rows or (), part.sha256 or ())
        found.update((fact[0], fact) for fact in facts)
    if not found:
        raise DataError(no_rows(source, split))
    files, rows, digests = zip(*(found[file] for file in sorted(found)), strict=True)
    return InputFiles(
        files,
        None if None in rows else rows,
        None if None in digests else digests,
        any(part.may_mix for part in parts),
    )


def find_packed(source: InputSource, *, split: str) -> tuple[InputFiles, PackedLayout]:
    """Finds packed shards of a split, from a folder with a manifest or `[FOLDER/Split-NAME/*]`.

    Remote shards are copied to the local disk, because Arrow needs a local path.
    """
    if isinstance(source, list | tuple):
        found = _folder_and_split(source[0]) if len(source) == 1 else None
        if found is None:
            raise UsageError(
                f"packed records are read by their manifest: give their folder, or one pattern "
                f"FOLDER/{split_dir('NAME')}/*, got {', '.join(source) or 'nothing'}"
            )
        source, split = found
    folder = local_folder(str(source))
    manifest = checked_manifest(folder)
    if manifest.packed is None:
        raise UsageError(f"{folder}: holds row Examples; read them with Input.rows, or pack them")
    files = _listed(folder, manifest, split)
    if not files.files:
        raise DataError(no_rows(folder, split, "pack"))
    layout = PackedLayout.from_dict(manifest.packed, posixpath.join(folder, MANIFEST_NAME))
    return files, layout


def _from_manifest(folder: str, split: str) -> InputFiles:
    folder = local_folder(folder) if scheme_of(folder) in _COPIED else folder
    manifest = checked_manifest(folder)
    if manifest.packed is not None:
        raise UsageError(f"{folder}: holds packed records; read them with Input.packed")
    return _listed(folder, manifest, split)


def _listed(folder: str, manifest: Manifest, split: str) -> InputFiles:
    if split not in manifest.splits:
        raise UsageError(f"{folder}: no split {split!r}; it has {', '.join(manifest.splits)}")
    shards = [shard for shard in manifest.splits[split] if shard.rows > 0]
    files = tuple(posixpath.join(folder, shard.file) for shard in shards)
    rows, digests = (tuple(getattr(s, name) for s in shards) for name in ("rows", "sha256"))
    return InputFiles(files, rows, digests, may_mix=manifest.source_kind == COUNTED)


def _from_pattern(pattern: str) -> InputFiles:
    if place := _folder_and_split(pattern):
        recover(place[0])
        is_copied = scheme_of(place[0]) in _COPIED  # shards on S3 need a manifest
        if is_copied or tf.io.gfile.exists(posixpath.join(place[0], MANIFEST_NAME)):
            return _from_manifest(*place)
    found = tf.io.gfile.glob(pattern)
    shards = [file for file in found if not posixpath.basename(file).startswith(NO_SHARDS)]
    if not shards:
        raise DataError(f"{pattern}: no such file, or nothing matches the pattern")
    is_listed = "://" in pattern or check_listed(pattern)
    return InputFiles(tuple(shards), None if is_listed else check_unlisted(shards))


def _folder_and_split(pattern: str) -> tuple[str, str] | None:
    """Returns (FOLDER, NAME) for the pattern `FOLDER/Split-NAME/*`."""
    directory, last = posixpath.split(pattern)
    folder, name = posixpath.split(directory)
    split = split_of(name)
    return None if last != "*" or split is None else (folder, split)


def _digest(file: str) -> str:
    if "://" in file:
        found = tf.io.gfile.stat(file)
        return f"{found.length}-{found.mtime_nsec}"
    return hash_file(file).digest.hex()


def _count_file(file: str, compression: str) -> int:
    blocks = tf.data.TFRecordDataset(file, compression_type=compression).batch(1024)
    try:
        return sum(map(len, blocks.as_numpy_iterator()))
    except tf.errors.DataLossError as error:
        raise DataError(f"{file}: {error.message}; `penstock verify` says where") from error
