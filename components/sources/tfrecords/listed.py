"""Compares TFRecord files to be ingested with the manifests that list them, local or remote.

The scan reads every byte anyway, so digests are compared after it (`require_listed`).
"""

import fnmatch
import os
import posixpath
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from penstock.components.errors import DataError
from penstock.components.files.content import open_data
from penstock.components.files.find import identity
from penstock.components.files.remote import RemoteFile, is_remote, normal_address, remote_file
from penstock.components.files.retry import NotThereError
from penstock.components.sources.files import ScannedFile
from penstock.components.tfrecord.checked import altered, find_scopes, missing, shard_faults
from penstock.components.tfrecord.manifest import MANIFEST_NAME, Manifest, Shard
from penstock.components.tfrecord.sharding import split_dir
from penstock.components.tfrecord.unlisted import missing_members


def listed_shards(inputs: Sequence[str], files: Sequence[str]) -> dict[str, Shard]:
    """Returns the manifest entries of the listed files, by each file's `identity`.

    Raises DataError if files are not those that a manifest lists, or if a numbered set without a
    manifest is incomplete. Digests are not compared.
    """
    shards: dict[str, Shard] = {}
    whole = False
    for path in inputs:
        if is_remote(path):
            continue
        scopes = find_scopes(path)
        for scope in scopes:
            for fault in shard_faults(scope, digests=False):
                raise DataError(fault)
            shards |= {identity(str(scope.root / shard.file)): shard for shard in scope.shards}
        # A file that is given alone may be one of many, so the set need not be complete.
        whole = whole or not (scopes or os.path.isfile(path))
    if whole:
        for fault in missing_members(Path(file) for file in files if not is_remote(file)):
            raise DataError(f"{fault}; bring back the whole set, and only that")
    remote = [file for file in files if isinstance(file, RemoteFile)]
    asked = [normal_address(path) for path in inputs if is_remote(path)]
    return shards | dict(_remote_shards(asked, remote))


def require_listed(files: Iterable[ScannedFile], shards: Mapping[str, Shard]) -> None:
    """Raises DataError if a scanned file has another digest than its manifest entry."""
    for file in files:
        shard = shards.get(identity(file.path))
        if shard and shard.sha256 != file.content.digest.hex():
            raise DataError(altered(file.path, file.content.digest.hex(), shard))


def _remote_shards(
    inputs: Sequence[str], files: Sequence[RemoteFile]
) -> Iterator[tuple[str, Shard]]:
    found = set(files)
    for folder in sorted({posixpath.dirname(file) for file in files}):
        manifest = _remote_manifest(folder)
        if manifest is None:
            continue
        listed = {f"{posixpath.dirname(folder)}/{shard.file}": shard for shard in manifest.shards}
        for address, shard in listed.items():
            if posixpath.dirname(address) == folder and _is_meant(address, inputs):
                if address not in found:
                    raise DataError(missing(address, shard))
                yield address, shard
        for file in files:
            if posixpath.dirname(file) == folder and file not in listed:
                raise DataError(f"{file}: not listed in the manifest above it; remove it")


def _remote_manifest(folder: str) -> Manifest | None:
    root, _, name = folder.rpartition("/")
    if not name.startswith(split_dir("")):
        return None
    path = f"{root}/{MANIFEST_NAME}"
    try:
        with open_data(remote_file(path)) as file:
            return Manifest.from_json(file.read().decode(errors="replace"), path)
    except NotThereError:
        return None


def _is_meant(address: str, inputs: Iterable[str]) -> bool:
    return any(
        address == path
        or fnmatch.fnmatchcase(address, path)
        or address.startswith(f"{path.rstrip('/')}/")
        for path in inputs
    )
