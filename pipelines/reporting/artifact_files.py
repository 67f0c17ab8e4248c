"""Files of artifacts: local ones without TensorFlow, remote ones through its file systems."""

import os
import posixpath
from collections.abc import Iterator
from typing import Any

from penstock.components.tfrecord.sharding import split_dir, split_of


def is_remote(path: str) -> bool:
    """Whether it is an address such as `gs://...`."""
    return "://" in path


def read_bytes(path: str) -> bytes:
    """The content of a file.

    Raises:
        OSError: It cannot be read.
    """
    if not is_remote(path):
        with open(path, "rb") as file:
            return file.read()
    files = _gfile()
    with files.open(path, "rb") as remote:
        content: bytes = remote.read()
    return content


def names_in(folder: str) -> list[str]:
    """The names in a folder, sorted.

    Raises:
        OSError: There is no such folder.
    """
    if not is_remote(folder):
        return sorted(os.listdir(folder))
    return sorted(name.rstrip("/") for name in _gfile().listdir(folder))


def splits_in(folder: str) -> list[str]:
    """The names of the splits in an artifact's folder; `train` is the first, then `eval`."""
    names = [name for name in map(split_of, names_in(folder)) if name is not None]
    return sorted(names, key=lambda name: (name != "train", name != "eval", name))


def split_folder(folder: str, split: str) -> str:
    """Where a split lies."""
    return posixpath.join(folder, split_dir(split))


def walk_sizes(folder: str) -> Iterator[tuple[str, int]]:
    """Each file below a local folder, relative to it, and its bytes."""
    for here, _, files in os.walk(folder):
        for name in sorted(files):
            path = os.path.join(here, name)
            yield os.path.relpath(path, folder), os.path.getsize(path)


def _gfile() -> Any:
    from tfx.dsl.io import fileio  # brings TensorFlow

    return fileio
