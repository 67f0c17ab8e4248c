"""The TFRecord files that a path means: a file, a folder or a pattern in, files out."""

import glob
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from penstock.components.errors import DataError
from penstock.components.tfrecord.manifest import MANIFEST_NAME
from penstock.components.tfrecord.recovery import recover

# How names begin that are no shards: hidden ones, markers, and the folder of half-written files
# that Beam leaves where an engine did its work again.
NO_SHARDS = (".", "_", "beam-temp-")
# What stands beside TFRecords without being any: Spark's checksums, TensorFlow Datasets'
# and TFX's descriptions, an ingest's rejected rows, notes of people.
_OTHER_SUFFIXES = {".crc", ".csv", ".json", ".jsonl", ".md", ".pbtxt", ".txt", ".yaml", ".yml"}


@dataclass(frozen=True)
class FoundFiles:
    """What lies under a path.

    Attributes:
        files: The TFRecord files by name, sorted by path; not looked into.
        skipped: The files passed over by their names: hidden ones, `_SUCCESS` and others
            that begin with `_`, and those with the ending of another kind of file; not manifests.
    """

    files: tuple[Path, ...]
    skipped: tuple[Path, ...]


def find_tfrecords(path: str) -> FoundFiles:
    """The TFRecord files of a file, a folder (its subfolders too) or a glob pattern.

    A file that is named is taken whatever it is called.

    Raises:
        DataError: There is nothing of that name, or no TFRecord in it.
    """
    recover(path)
    if os.path.exists(path) and not os.path.isdir(path):
        return FoundFiles((Path(path),), ())
    below = sorted(_walk(path) if os.path.isdir(path) else _expand(path))
    files = tuple(file for file in below if not _is_other(file.name))
    skipped = tuple(f for f in below if _is_other(f.name) and f.name != MANIFEST_NAME)
    if not files:
        beside = f" (passed over: {', '.join(p.name for p in skipped)})" if skipped else ""
        raise DataError(f"{path}: no TFRecord file in there{beside}")
    return FoundFiles(files, skipped)


def _walk(folder: str) -> Iterator[Path]:
    for parent, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(NO_SHARDS)]
        yield from (Path(parent, name) for name in names)


def _expand(pattern: str) -> Iterator[Path]:
    if "://" in pattern:
        raise DataError(f"{pattern}: remote files are not read here; mount or copy them first")
    matches = glob.glob(pattern, recursive=True)
    if not matches:
        raise DataError(f"{pattern}: no such file or folder, and no file matches it as a pattern")
    return (Path(match) for match in matches if not os.path.isdir(match))


def _is_other(name: str) -> bool:
    return name.startswith(NO_SHARDS) or os.path.splitext(name)[1].lower() in _OTHER_SUFFIXES
