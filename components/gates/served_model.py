"""Reads and checks models in a serving folder, without TensorFlow.

A run that takes its push from the cache checks the served model, and need not import TensorFlow.
"""

import hashlib
import os
from pathlib import Path

from tfx import types
from tfx.dsl.io import fileio

from penstock.components.errors import DataError
from penstock.components.files.content import hash_file

DIGEST_PROPERTY = "pushed_sha256"


def check_served(pushed: types.Artifact) -> None:
    """Raises a DataError if a pushed model was altered, or is not its folder's newest version.

    Nothing is checked if the artifact has no version, as when the model was not blessed. The
    content is checked only if Penstock's `Pusher` copied the model to a local folder.
    """
    place = pushed.get_string_custom_property("pushed_destination")
    version = pushed.get_string_custom_property("pushed_version")
    if not version.isdecimal() or os.path.basename(place) != version:
        return
    if not fileio.isdir(place):
        raise DataError(f"{place}: the pushed model is gone")
    newest = newest_version(os.path.dirname(place))
    if newest is not None and newest.name != version:
        raise DataError(f"{place}: was pushed, but {newest.name} is the newest version there")
    digest = pushed.get_string_custom_property(DIGEST_PROPERTY)
    if digest and "://" not in place and folder_digest(place) != digest:
        raise DataError(f"{place}: the pushed model was altered")


def newest_version(serving: str) -> Path | None:
    names = fileio.listdir(serving) if fileio.isdir(serving) else []
    versions = [name.rstrip("/") for name in names]
    numbers = [name for name in versions if name.isdecimal()]
    return Path(serving, max(numbers, key=int)) if numbers else None


def folder_digest(folder: str) -> str:
    """Returns a digest (hex) of the relative paths and contents of all files in a folder."""
    total = hashlib.sha256()
    root = Path(folder)
    for file in sorted(path for path in root.rglob("*") if path.is_file()):
        name = file.relative_to(root).as_posix().encode()
        total.update(name + b"\0" + hash_file(str(file)).digest)
    return total.hexdigest()
