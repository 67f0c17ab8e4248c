"""Refuses folders that Spark or Hadoop wrote if the job or a copy of a file is unfinished."""

import os
import re
from collections.abc import Sequence

from penstock.components.errors import DataError
from penstock.components.files.find import identity
from penstock.components.files.remote import ask, is_remote, normal_address

SUCCESS = "_SUCCESS"
# Spark's own writers put a UUID into file names; Hadoop's writers, which spark-tensorflow-connector
# uses, write `part-r-00000`. A plain `part-00000` does not match, because other programs also write
# such files.
_PART = re.compile(r"part-(r-\d{5}|\d{5}-[0-9a-f]{8}-[0-9a-f]{4}-).*")
# Names that Hadoop gives to files while it copies them.
_UNFINISHED = re.compile(r"(part-.*)\._COPYING_")


def require_finished(inputs: Sequence[str], files: Sequence[str]) -> None:
    """Raises DataError for a folder with Spark's part files but without `_SUCCESS`.

    A local folder with an unfinished copy of a part file is an error, too.

    `files` are the data files that were found in the inputs. A glob is not checked, because it may
    match part files in any folder. An input folder named `column=value` is not checked, because it
    is one partition of an output, and `_SUCCESS` is in the folder of the whole output.
    """
    for one in inputs:
        folder = (normal_address(one) if is_remote(one) else os.path.abspath(one)).rstrip("/")
        mark = f"{folder}/{SUCCESS}"
        inside = [file for file in files if identity(file).startswith(f"{folder}/")]
        has_parts = any(map(_PART.match, map(os.path.basename, inside)))
        if not has_parts or "=" in os.path.basename(folder):
            continue
        if not (ask(mark, "exists") if is_remote(one) else os.path.exists(mark)):
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
