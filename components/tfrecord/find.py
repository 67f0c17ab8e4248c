"""The TFRecord files that a path means: a file, a folder or a pattern in, files out."""

import glob
import os
from dataclasses import dataclass
from pathlib import Path

from penstock.components.errors import DataError
from penstock.components.tfrecord.recovery import recover

# What stands beside TFRecords without being any: Spark's checksums, TensorFlow Datasets'
# and TFX's descriptions, an ingest's rejected rows, notes of people.
_OTHER_SUFFIXES = {".crc", ".csv", ".json", ".jsonl", ".md", ".pbtxt", ".txt", ".yaml", ".yml"}


@dataclass(frozen=True)
class FoundFiles:
    """What lies under a path.

    Attributes:
        files: The TFRecord files by name, sorted by path; not looked into.
        skipped: The files passed over by their names: hidden ones, `_SUCCESS` and others
            that begin with `_`, and those with the ending of another kind of file.
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
    if os.path.isdir(path):
        files, skipped = _walk(path)
    elif os.path.exists(path):
        return FoundFiles((Path(path),), ())
    else:
        files, skipped = _expand(path)
    if not files:
        beside = f" (passed over: {', '.join(p.name for p in skipped)})" if skipped else ""
        raise DataError(f"{path}: no TFRecord file in there{beside}")
    return FoundFiles(tuple(sorted(files)), tuple(sorted(skipped)))


def _walk(folder: str) -> tuple[list[Path], list[Path]]:
    files: list[Path] = []
    skipped: list[Path] = []
    for parent, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith((".", "_"))]
        for name in names:
            (skipped if _is_other(name) else files).append(Path(parent, name))
    return files, skipped


def _expand(pattern: str) -> tuple[list[Path], list[Path]]:
    if "://" in pattern:
        raise DataError(f"{pattern}: remote files are not read here; mount or copy them first")
    matches = glob.glob(pattern, recursive=True)
    if not matches:
        raise DataError(f"{pattern}: no such file or folder, and no file matches it as a pattern")
    files: list[Path] = []
    skipped: list[Path] = []
    for match in matches:
        if os.path.isdir(match):
            continue
        (skipped if _is_other(os.path.basename(match)) else files).append(Path(match))
    return files, skipped


def _is_other(name: str) -> bool:
    return name.startswith((".", "_")) or os.path.splitext(name)[1].lower() in _OTHER_SUFFIXES
