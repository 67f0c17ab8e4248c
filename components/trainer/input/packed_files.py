"""The packed shards that an input reads, local or remote, and their contents."""

import posixpath

from penstock.components.errors import DataError, UsageError
from penstock.components.packing.layout import PackedLayout
from penstock.components.tfrecord.checked import checked_manifest
from penstock.components.tfrecord.manifest import MANIFEST_NAME
from penstock.components.tfrecord.sharding import split_dir
from penstock.components.trainer.input.files import InputFiles, InputSource, readable


def find_packed(source: InputSource, *, split: str) -> tuple[InputFiles, PackedLayout]:
    """Find what to read: a folder with a manifest and a split of it, or `FOLDER/Split-NAME/*`.

    Raises:
        DataError: There is no manifest, it is damaged, a shard differs from it, or the split has
            no rows.
        UsageError: The records are not packed, or there is no such split.
    """
    folder, split = _folder_and_split(source, split)
    folder = readable(folder)
    path = posixpath.join(folder, MANIFEST_NAME)
    manifest = checked_manifest(folder)
    if manifest.packed is None:
        raise UsageError(
            f"{folder}: holds row Examples; read them with train_input_fn, or pack them"
        )
    if split not in manifest.splits:
        raise UsageError(f"{folder}: no split {split!r}; it has {', '.join(manifest.splits)}")
    shards = [shard for shard in manifest.splits[split] if shard.rows]
    if not shards:
        raise DataError(f"{folder}: split {split!r} has no rows; pack more data or other splits")
    files = [posixpath.join(folder, shard.file) for shard in shards]
    rows = tuple(shard.rows for shard in shards)
    return InputFiles(tuple(files), rows), PackedLayout.from_dict(manifest.packed, path)


def _folder_and_split(source: InputSource, split: str) -> tuple[str, str]:
    if not isinstance(source, list | tuple):
        return str(source), split
    if len(source) != 1 or posixpath.basename(source[0]) != "*":
        raise UsageError(
            f"packed records are read by their manifest: give their folder, or one pattern "
            f"FOLDER/{split_dir('NAME')}/*, got {', '.join(source) or 'nothing'}"
        )
    folder, name = posixpath.split(posixpath.dirname(source[0]))
    return folder, name.removeprefix(split_dir(""))
