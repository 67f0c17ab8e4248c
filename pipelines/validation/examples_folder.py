"""The contents of an Examples folder: its manifest, if it has one, and the shards of each split."""

from pathlib import Path

from penstock.components.errors import DataError
from penstock.components.tfrecord.manifest import MANIFEST_NAME, Manifest, read_manifest
from penstock.components.tfrecord.sharding import split_dir, split_of


def find_manifest(folder: Path) -> Manifest | None:
    """The manifest; None where another ExampleGen wrote the Examples."""
    return read_manifest(folder) if (folder / MANIFEST_NAME).exists() else None


def find_shards(folder: Path, manifest: Manifest | None) -> dict[str, list[str]]:
    """The files of each split: those that the manifest lists, or all without one.

    Raises:
        DataError: It is no Examples folder.
    """
    if manifest is not None:
        return {
            split: [str(folder / shard.file) for shard in shards]
            for split, shards in manifest.splits.items()
        }
    found = {
        str(split_of(path.name)): [
            str(file) for file in sorted(path.iterdir()) if not file.name.startswith((".", "_"))
        ]
        for path in sorted(folder.glob(split_dir("*")))
    }
    if not found:
        raise DataError(
            f"{folder}: no Examples folder, it has neither {MANIFEST_NAME} nor {split_dir('*')}; "
            "make one with penstock ingest"
        )
    return found
