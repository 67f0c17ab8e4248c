"""Reads the Examples in a folder or at an address, one per row, as Arrow batches."""

import functools
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from penstock.components.errors import DataError, UsageError
from penstock.components.files.content import HashingStream, hash_file
from penstock.components.files.find import SHARDS, find
from penstock.components.files.remote import RemoteFile, find_below, is_remote, normal_address
from penstock.components.files.spool import local_folder, local_path
from penstock.components.sources.tfrecords.decode import RowDecoder
from penstock.components.tfrecord.checked import altered, checked_manifest, missing
from penstock.components.tfrecord.compression import CHUNK_BYTES
from penstock.components.tfrecord.example_proto import unusual_examples
from penstock.components.tfrecord.manifest import MANIFEST_NAME, Manifest, Shard
from penstock.components.tfrecord.records import RecordReader, in_batches, open_file
from penstock.components.tfrecord.recovery import recover
from penstock.components.tfrecord.sharding import split_dir
from penstock.components.tfrecord.unlisted import check_unlisted, require_example

# A batch of rows that are decoded together ends at this number of rows or of bytes.
BATCH_ROWS = 4096
BATCH_BYTES = 2**24
# Name and kind (INT, FLOAT, BYTES) of each feature in the rows; empty if unknown.
Kinds = frozenset[tuple[str, str]]
# Reads the rows of a shard as Arrow columns, a few thousand rows at a time.
ReadShard = Callable[[str, Shard, Kinds], Iterator[pa.RecordBatch]]


@dataclass(frozen=True)
class RowSplit:
    """One split of rows: its shards in order, as paths and as manifest entries."""

    name: str
    files: tuple[str, ...]
    shards: tuple[Shard, ...]
    read: ReadShard
    # INT, FLOAT or BYTES of each feature; empty if unknown
    kinds: Mapping[str, str] = field(default_factory=dict)

    @property
    def rows(self) -> int:
        return sum(shard.rows for shard in self.shards)


def find_splits(folder: str, wanted: Sequence[str]) -> list[RowSplit]:
    remote = _remote_files(folder)
    root = Path(folder if remote else local_folder(folder))
    recover(root)
    if remote:
        found = _from_manifest(folder, _remote_manifest(remote), remote)
    elif (root / MANIFEST_NAME).is_file():
        found = _from_manifest(str(root), checked_manifest(root), {})
    elif root.is_dir():
        found = [_from_folder(path) for path in sorted(root.glob(split_dir("*")))]
    else:
        raise DataError(f"{folder}: no such folder of Examples")
    if not found:
        raise DataError(f"{folder}: no {split_dir('NAME')} folder in there; is it Examples?")
    names = [split.name for split in found]
    if unknown := [name for name in wanted if name not in names]:
        raise UsageError(f"{folder}: no split {unknown[0]!r}; it has {', '.join(names)}")
    return [split for split in found if not wanted or split.name in wanted]


def _remote_files(folder: str) -> dict[str, RemoteFile]:
    """Returns the files below an address, by relative path; empty if local or without manifest."""
    if not is_remote(folder):
        return {}
    address = normal_address(folder).rstrip("/")
    names = {file[len(address) + 1 :]: file for file in find_below(address)}
    return names if MANIFEST_NAME in names else {}


def _remote_manifest(files: Mapping[str, RemoteFile]) -> Manifest:
    """Returns the manifest after checking that all shards exist; readers check digests later."""
    place = files[MANIFEST_NAME]
    manifest = Manifest.from_json(Path(local_path(place)).read_text(encoding="utf-8"), place)
    for shard in manifest.shards:
        if shard.file not in files:
            raise DataError(missing(place.replace(MANIFEST_NAME, shard.file), shard))
    return manifest


def _from_manifest(
    root: str, manifest: Manifest, remote: Mapping[str, RemoteFile]
) -> list[RowSplit]:
    if manifest.packed is not None:
        raise UsageError(f"{root}: is packed already; name the row Examples that it was made from")
    # For TFRecords, the kinds of the features are unknown, because ingest copies records unchanged
    # and they may have features that were not in its sample.
    is_known = manifest.source_kind != "tfrecord"
    kinds = {column.name: column.kind for column in manifest.columns if is_known}

    def files(shards: Sequence[Shard]) -> Iterator[str]:
        return (remote.get(shard.file) or f"{root}/{shard.file}" for shard in shards)

    return [
        RowSplit(name, tuple(files(shards)), tuple(shards), read_examples, kinds)
        for name, shards in manifest.splits.items()
    ]


def _from_folder(folder: Path) -> RowSplit:
    files = find(str(folder), SHARDS).files
    shards = (
        Shard(file, rows, os.path.getsize(file), hash_file(file).digest.hex())
        for file, rows in zip(files, check_unlisted(files), strict=True)
    )
    return RowSplit(folder.name.removeprefix(split_dir("")), files, tuple(shards), read_examples)


def read_examples(
    file: str, shard: Shard, kinds: Kinds, rows: int = BATCH_ROWS
) -> Iterator[pa.RecordBatch]:
    """Yields the Examples of a shard as Arrow columns of lists, up to `rows` rows at a time."""
    decoder = batch_decoder(kinds)
    read = 0
    for payloads in read_payloads(file, shard, rows=rows):
        require_examples(payloads, f"{file}: record", read)
        yield decoder.decode(payloads, f"{file}, rows {read:,} and on")
        read += len(payloads)


def read_payloads(
    file: str, shard: Shard, *, rows: int = BATCH_ROWS, size: int = BATCH_BYTES
) -> Iterator[list[bytes]]:
    """Yields the serialized records of a shard, up to `rows` or about `size` bytes at a time."""
    path = local_path(file)
    read = 0
    with open_file(path) as content:
        stream = HashingStream(content)
        for batch in in_batches(RecordReader(stream, file).records(), rows, size):
            yield [record.payload for record in batch]
            read += len(batch)
        while stream.read(CHUNK_BYTES):
            pass
    # The shard may have been replaced after the check of the manifest.
    if (found := stream.content().digest.hex()) != shard.sha256:
        raise DataError(altered(file, found, shard))
    if isinstance(file, RemoteFile):
        Path(path).unlink(missing_ok=True)
    if read != shard.rows:
        raise DataError(
            f"{file}: {read:,} rows, the manifest says {shard.rows:,}; `penstock verify` says where"
        )


def require_examples(payloads: Sequence[bytes], where: str, first: int) -> None:
    """Raises DataError for a payload that is no Example; the first payload has number `first`."""
    for at, payload in unusual_examples(payloads):
        require_example(payload, f"{where} {first + at}")


@functools.lru_cache(4)
def batch_decoder(kinds: Kinds) -> RowDecoder:
    return RowDecoder(dict(kinds))
