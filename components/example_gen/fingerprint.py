"""A digest of all outside data that an ExampleGen reads; no TFX, so that a rerun can look first."""

import hashlib
import os
from collections.abc import Sequence

from penstock.components.files.content import hash_file
from penstock.components.files.listing import list_files
from penstock.components.files.remote import RemoteFile
from penstock.components.sources.files import map_files
from penstock.components.sources.open import open_source
from penstock.components.sources.options import KindOptions, Table


def input_fingerprint(inputs: Sequence[tuple[str, KindOptions]]) -> str:
    """sha256 (hex) of the name and content of all that decides the output.

    Args:
        inputs: Patterns of files, or addresses of what is no file, each with how it is read.
    """
    schema_file = getattr(inputs[0][1], "schema_file", None)
    digest = hashlib.sha256()
    if schema_file:
        digest.update(_line(schema_file))
    for pattern, source in inputs:
        if isinstance(source, Table):
            for line in map_files(_line, list_files(pattern, source.kind).files):
                digest.update(line)
        else:
            digest.update(open_source(pattern, source).fingerprint.encode())
    return digest.hexdigest()


def _line(file: str) -> bytes:
    # A store that tells the version of an object spares reading it here.
    version = file.sure_version if isinstance(file, RemoteFile) else None
    version = version or hash_file(file).sha256.hex()
    return os.fsencode(f"{file}\0{version}\n")
