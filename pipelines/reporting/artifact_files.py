"""Reads files of artifacts, at local paths and remote addresses."""

import os
import posixpath
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from penstock.components.files.remote import is_remote, list_folder
from penstock.components.files.spool import local_path
from penstock.components.tfrecord.example_proto import parse_example
from penstock.components.tfrecord.records import read_records
from penstock.components.tfrecord.sharding import split_dir, split_of

# Features of a row by name.
Features = Mapping[str, Any]
_MOST_VALUES = 8


def read_bytes(path: str) -> bytes:
    return Path(local_path(path)).read_bytes()


def names_in(folder: str) -> list[str]:
    if not is_remote(folder):
        return sorted(os.listdir(folder))
    files, folders = list_folder(folder)
    return sorted([*(posixpath.basename(file) for file in files), *folders])


def splits_in(folder: str) -> list[str]:
    """Returns the names of the splits of an artifact, `train` and `eval` first."""
    names = [name for name in map(split_of, names_in(folder)) if name is not None]
    return sorted(names, key=lambda name: (name != "train", name != "eval", name))


def split_folder(folder: str, split: str) -> str:
    return posixpath.join(folder, split_dir(split))


def rows_in(folder: str, *, of_each: int | None = None) -> Iterator[tuple[str, int, Features]]:
    """Yields (shard, row index, features) for the rows of a split, at most `of_each` per shard."""
    for name in names_in(folder):
        for record in read_records(local_path(posixpath.join(folder, name))):
            if record.number == of_each:
                break
            message: Any = parse_example(record.payload)
            if message is not None:
                yield name, record.number, message.context.feature


def as_text(values: Sequence[Any], most: int = 300) -> str:
    return ", ".join(_text(value, most) for value in values[:_MOST_VALUES]) + (
        ", ..." if len(values) > _MOST_VALUES else ""
    )


def _text(value: Any, most: int) -> str:
    if not isinstance(value, bytes):
        return f"{value:g}" if isinstance(value, float) else str(value)
    if len(value) > most and b"\0" in value[:most]:
        return f"{len(value):,} bytes"
    text = value[: 4 * most].decode("utf-8", "backslashreplace")
    return text if len(text) <= most else f"{text[:most]}..."
