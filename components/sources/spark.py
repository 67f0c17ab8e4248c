"""Folders that Spark or Hadoop wrote: refused while their job, or a copy of them, is unfinished."""

import os
import re
from collections.abc import Sequence

from penstock.components.errors import DataError
from penstock.components.files.remote import ask, is_remote, normal_address

SUCCESS = "_SUCCESS"
# Spark's own writers put a UUID into the names; Hadoop's, as spark-tensorflow-connector uses, do
# not. Other programs also have a `part-00000`.
_PART = re.compile(r"part-(r-\d{5}|\d{5}-[0-9a-f]{8}-[0-9a-f]{4}-).*")
# Names that Hadoop gives a file while it copies it.
_UNFINISHED = re.compile(r"(part-.*)\._COPYING_")


def require_finished(inputs: Sequence[str], files: Sequence[str]) -> None:
    """Raises DataError for an input folder with Spark's part files but without `_SUCCESS`.

    `files` are the data files that were found. A glob takes the part files of any folder, and a
    folder `column=value` is a part of one.
    """
    for one in inputs:
        folder = normal_address(one) if is_remote(one) else os.path.abspath(one)
        folder = folder.rstrip("/")
        if not any(_is_part(file, folder) for file in files) or "=" in os.path.basename(folder):
            continue
        if not _has(f"{folder}/{SUCCESS}"):
            raise DataError(
                f"{one}: holds part files of Spark but no {SUCCESS}, so its job did not finish or "
                f"failed; run it again, or name the files, as '{folder}/part-*'"
            )
        for name in [] if is_remote(one) else sorted(os.listdir(folder)):
            copy = _UNFINISHED.fullmatch(name)
            if copy and not os.path.exists(f"{folder}/{copy[1]}"):
                raise DataError(
                    f"{one}: {name} is a copy that was not finished; wait for it, or copy the file "
                    "again"
                )


def _is_part(file: str, folder: str) -> bool:
    place = file if is_remote(file) else os.path.abspath(file)
    return place.startswith(f"{folder}/") and _PART.match(os.path.basename(place)) is not None


def _has(path: str) -> bool:
    return bool(ask(path, "exists")) if is_remote(path) else os.path.exists(path)
