"""Checks shards against their manifest, as every reader does before it reads.

A path selects shards: a folder of Examples, a split's folder, a shard or a pattern of shards. Each
selected shard must have the size and digest that the manifest lists. The folders of the splits must
not contain other files, unless the reader opens only the listed ones.

A digest costs 0.8 ms per MiB, so it is computed once for each state of a file: `.digests.json`
beside the manifest stores it by inode, size, mtime and ctime. Every write, rename or `touch`
changes the ctime, unless it falls within the same tick of the clock as the previous change.
Therefore only digests of files that have not changed for some seconds are stored.
"""

import fnmatch
import glob
import hashlib
import json
import os
import posixpath
import time
import uuid
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penstock.components.errors import DataError, one_line, reason
from penstock.components.tfrecord.compression import CHUNK_BYTES
from penstock.components.tfrecord.manifest import (
    DIGESTS_NAME,
    MANIFEST_NAME,
    Manifest,
    Shard,
    read_manifest,
)
from penstock.components.tfrecord.recovery import recover
from penstock.components.tfrecord.sharding import split_dir

# A file's digest is stored only if the file last changed at least this long ago. This is longer
# than the tick of any file system's clock, which is up to 2 s (FAT).
_SETTLED_NS = 3 * 10**9
_HASHING_THREADS = 4

_State = tuple[int, ...]


@dataclass(frozen=True)
class Scope:
    """Shards that a path selects, existing or not, and selected files that no manifest lists.

    `root` is the folder of the manifest.
    """

    root: Path
    manifest: Manifest
    shards: tuple[Shard, ...]
    leftovers: tuple[Path, ...]


def checked_manifest(folder: str | os.PathLike[str]) -> Manifest:
    """Returns the manifest of a folder of Examples after checking its shards.

    It is for readers that open only files that the manifest lists, and ignore others. At an object
    store only sizes are compared, since a digest would require every byte.
    """
    if "://" in os.fspath(folder):
        return _checked_remote(os.fspath(folder))
    root = Path(folder)
    manifest = read_manifest(root)
    check_scope(Scope(root, manifest, tuple(manifest.shards), ()))
    return manifest


def check_folder(folder: str, manifest_sha256: str = "") -> None:
    """Checks a folder of Examples against its manifest, for readers that open every file in it.

    A folder without a manifest passes unless `manifest_sha256` shows that there was one.
    """
    if manifest_sha256:
        _check_manifest(posixpath.join(folder, MANIFEST_NAME), manifest_sha256)
    if "://" not in folder:
        check_listed(folder)
    elif _remote().exists(posixpath.join(folder, MANIFEST_NAME)):
        _checked_remote(folder)


def _check_manifest(path: str, sha256: str) -> None:
    if not (_remote().exists(path) if "://" in path else os.path.isfile(path)):
        raise DataError(f"{path}: the manifest is gone, so the shards cannot be checked")
    with _remote().GFile(path, "rb") if "://" in path else open(path, "rb") as file:
        if hashlib.sha256(file.read()).hexdigest() != sha256:
            raise DataError(f"{path}: not the manifest that was written here; it was altered")


def check_listed(path: str | os.PathLike[str]) -> bool:
    """Checks the shards that a path selects; returns whether any manifest lists them.

    The path is a folder, a split's folder, a shard, or a pattern of shards.
    """
    scopes = find_scopes(path)
    for scope in scopes:
        check_scope(scope)
    return bool(scopes)


def disk_state(file: str | int) -> _State:
    """Returns inode, size, mtime and ctime of a path or descriptor, to detect a changed file."""
    found = os.stat(file)
    return found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def stamp_of(path: str | os.PathLike[str]) -> tuple[int, int]:
    """Returns size in bytes and modification time (ns), which show whether a file was replaced."""
    found = os.stat(path)
    return found.st_size, found.st_mtime_ns


def require_stamp(path: str | os.PathLike[str], stamp: tuple[int, int]) -> None:
    """Raises DataError if a file was replaced since its reader took `stamp`."""
    try:
        now = stamp_of(path)
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {reason(error)}") from error
    if now != stamp:
        raise DataError(f"{path}: was replaced while it was read; start again")


def find_scopes(path: str | os.PathLike[str]) -> list[Scope]:
    name = os.fspath(path)
    recover(name)
    place = Path(name)
    folders, pattern, is_file = {place}, "*", False
    if glob.has_magic(name) and not os.path.lexists(name):
        folders = {Path(match).parent for match in glob.glob(name, recursive=True)}
        # The pattern matches nothing in a split that lost all its shards, but the folder exists.
        folders |= {Path(folder) for folder in glob.glob(os.path.dirname(name), recursive=True)}
        pattern = os.path.basename(name)
    elif not place.is_dir():
        folders, pattern, is_file = {place.parent}, glob.escape(place.name), True
    by_root: dict[Path, list[Path]] = {}
    for folder in sorted(folders):
        if root := _root_of(folder, is_split=is_file):
            by_root.setdefault(root, []).append(folder)
    return [_scope_of(root, below, pattern) for root, below in by_root.items()]


def check_scope(scope: Scope) -> None:
    for fault in shard_faults(scope):
        raise DataError(fault)


def shard_faults(scope: Scope, *, digests: bool = True) -> Iterator[str]:
    """Yields a line for each shard that is missing or altered, and for each unlisted file.

    Digests are compared only if `digests` is True.
    """
    whole = []
    for shard in scope.shards:
        path = scope.root / shard.file
        if not path.exists():
            yield missing(path, shard)
        elif not path.is_file():
            yield f"{path}: not a file; the manifest lists it as a shard"
        elif (size := path.stat().st_size) != shard.bytes:
            yield _cut(path, shard, size)
        else:
            whole.append(shard)
    yield from map(leftover, scope.leftovers)
    if digests:
        yield from _digest_faults(scope.root, whole)


def _digest_faults(root: Path, shards: Iterable[Shard]) -> Iterator[str]:
    digests = _Digests(root)
    shards = list(shards)
    with ThreadPoolExecutor(_HASHING_THREADS) as pool:
        found = pool.map(lambda shard: digests.of(shard.file), shards)
        for shard, digest in zip(shards, found, strict=True):
            if digest != shard.sha256:
                yield altered(root / shard.file, digest, shard)
    digests.keep()


class _Digests:
    """Digests of a folder's shards; computed if none is stored for a shard's current state."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._known: dict[str, tuple[_State, str]] = {}
        self._is_new = False
        # Without a readable cache, all digests are computed.
        with suppress(OSError, ValueError, AttributeError, TypeError):
            known = json.loads((root / DIGESTS_NAME).read_text(encoding="utf-8"))
            self._known = {file: (tuple(state), digest) for file, (state, digest) in known.items()}

    def of(self, file: str) -> str:
        path = self._root / file
        try:
            with path.open("rb", buffering=0) as content:
                state = disk_state(content.fileno())
                known = self._known.get(file)
                if known and known[0] == state:
                    return known[1]
                now = time.time_ns()
                digest = hashlib.sha256()
                while block := content.read(CHUNK_BYTES):
                    digest.update(block)
                settled = max(state[2:]) + _SETTLED_NS < now
                if settled and disk_state(content.fileno()) == state:
                    self._known[file] = (state, digest.hexdigest())
                    self._is_new = True
        except OSError as error:
            raise DataError(f"{path}: cannot be read: {reason(error)}") from error
        return digest.hexdigest()

    def keep(self) -> None:
        if not self._is_new:
            return
        temporary = self._root / f".{DIGESTS_NAME}.{uuid.uuid4().hex}"
        with suppress(OSError):
            temporary.write_text(json.dumps(self._known), encoding="utf-8")
            temporary.replace(self._root / DIGESTS_NAME)


def _remote() -> Any:
    """Returns TensorFlow's file systems; the import takes seconds."""
    import tensorflow as tf

    return tf.io.gfile


def _checked_remote(folder: str) -> Manifest:
    gfile = _remote()
    path = posixpath.join(folder, MANIFEST_NAME)
    try:
        with gfile.GFile(path) as file:
            manifest = Manifest.from_json(file.read(), path)
    except Exception as error:  # One of tf.errors, which is not imported here
        if isinstance(error, DataError):
            raise
        raise DataError(f"{path}: cannot be read ({one_line(error)})") from error
    for shard in manifest.shards:
        place = posixpath.join(folder, shard.file)
        if not gfile.exists(place):
            raise DataError(missing(place, shard))
        if (size := gfile.stat(place).length) != shard.bytes:
            raise DataError(_cut(place, shard, size))
    return manifest


def missing(place: object, shard: Shard) -> str:
    return f"{place}: shard is missing; the manifest lists it with {shard.rows:,} rows"


def leftover(file: Path) -> str:
    return f"{file}: not listed in the manifest, but readers would take it for a shard; remove it"


def no_rows(place: object, split: str, verb: str = "ingest") -> str:
    return f"{place}: split {split!r} has no rows; {verb} more data or other splits"


def altered(place: object, digest: str, shard: Shard) -> str:
    return (
        f"{place}: sha256 {digest[:16]}..., the manifest says {shard.sha256[:16]}...; "
        "the content was altered, write it again"
    )


def _cut(place: object, shard: Shard, size: int) -> str:
    return (
        f"{place}: shard has {size} bytes, the manifest says {shard.bytes}; "
        "it was cut or altered, write it again"
    )


def _root_of(folder: Path, *, is_split: bool) -> Path | None:
    """Returns `folder`, or the folder above a split's, if a manifest is there; otherwise None."""
    if not is_split and (folder / MANIFEST_NAME).is_file():
        return folder
    is_split = folder.name.startswith(split_dir("")) and (folder.parent / MANIFEST_NAME).is_file()
    return folder.parent if is_split else None


def _scope_of(root: Path, folders: Sequence[Path], pattern: str) -> Scope:
    """Returns the shards in `folders` whose names match a pattern, and unlisted files there."""
    manifest = read_manifest(root)
    listed = {root / shard.file: shard for shard in manifest.shards}

    def is_meant(file: Path) -> bool:
        inside = any(folder in file.parents for folder in folders)
        return inside and fnmatch.fnmatch(file.name, pattern)

    shards = tuple(shard for file, shard in listed.items() if is_meant(file))
    splits = root.glob(split_dir("*")) if root in folders else folders
    present = (file for split in splits for file in split.rglob("*"))
    leftovers = (
        file
        for file in present
        if file not in listed and file.name[0] != "." and is_meant(file) and not file.is_dir()
    )
    return Scope(root, manifest, shards, tuple(sorted(leftovers)))
