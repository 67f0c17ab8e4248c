"""Outputs of an ingest: a folder that one rename makes visible, or a prefix of an object store.

    with open_output("s3://bucket/shards") as output:   # the driver
        with output.new_try() as folder:                # a worker, for each task
            ...                                         # write below the folder
            output.take(folder)                         # moves complete files to final names
        output.commit(manifest)                         # readers see the whole output or nothing

Driver and workers share only the output. An output is picklable.
"""

import os
import shutil
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from penstock.components.errors import DataError, UsageError
from penstock.components.files.address import scheme_of
from penstock.components.files.commit import attempt, beside, check_target
from penstock.components.files.remote import normal_address
from penstock.components.tfrecord.manifest import Manifest, write_manifest

# Folder that an output has only until its commit.
WORK_DIR = ".work"
STORE_SCHEMES = ("s3", "gs")


class Output(ABC):
    """An output that is being written; names in it are relative paths with slashes."""

    @abstractmethod
    def new_try(self) -> AbstractContextManager[Path]:
        """Yields a new, empty folder on this machine for one attempt at a task."""

    @abstractmethod
    def take(self, folder: Path) -> None:
        """Moves each file below an attempt's folder to its name in the output, each in one step.

        Two attempts at a task give equal bytes, so it does not matter whose file remains. A local
        output raises OSError if it was removed or the disk is full.
        """

    def put(self, name: str, data: bytes) -> None:
        """Writes data as a file of the output; the file's name must include a folder."""
        with self.new_try() as folder:
            (folder / name).parent.mkdir(parents=True)
            (folder / name).write_bytes(data)
            self.take(folder)

    @abstractmethod
    def place(self, name: str) -> str:
        """Returns the path or address of a file, under which any worker can open it."""

    @abstractmethod
    def read(self, name: str, start: int = 0, end: int | None = None) -> bytes:
        """Returns the bytes of a file of the output, from `start` up to `end`."""

    @abstractmethod
    def has(self, name: str) -> bool:
        """Returns whether `take` has moved a file to this name."""

    @abstractmethod
    def move(self, name: str, to: str) -> None:
        """Renames a file of the output (a store copies it); only the driver may call this."""

    @abstractmethod
    def commit(self, manifest: Manifest) -> None:
        """Compares the sizes of the shards with the manifest, then writes the manifest."""


@contextmanager
def open_output(target: str | os.PathLike[str], *, overwrite: bool = False) -> Iterator[Output]:
    """Yields an output at a path or an address; if the block fails, removes the output's files."""
    address = store_address(target)
    if address:
        from penstock.components.files.store_output import open_store

        with open_store(address, overwrite=overwrite) as store:
            yield store
    else:
        with attempt(target, overwrite=overwrite) as folder:
            (folder / WORK_DIR).mkdir()
            yield _LocalOutput(folder)


@contextmanager
def open_workspace(target: str | os.PathLike[str]) -> Iterator[Output]:
    """Yields a scratch folder that driver and workers share.

    The folder is next to `target` if this is a path, and below `target` if it is an address. It is
    removed at the end of the `with` block and never committed. If the driver was killed, the next
    ingest to the same place removes the folder.
    """
    address = store_address(target)
    if address:
        from penstock.components.files.store_output import open_store_workspace

        with open_store_workspace(address) as store:
            yield store
    else:
        with beside(Path(os.path.abspath(target))) as folder:
            (folder / WORK_DIR).mkdir()
            yield _LocalOutput(folder)


def check_output(target: str | os.PathLike[str], *, overwrite: bool = False) -> None:
    """Raises a UsageError, before any work is done, if an output cannot be written."""
    address = store_address(target)
    if address:
        from penstock.components.files.store_output import check_prefix

        check_prefix(address, overwrite=overwrite)
    else:
        check_target(target, overwrite=overwrite)


def require_elsewhere(inputs: Iterable[str], output: str | os.PathLike[str]) -> None:
    """Raises a UsageError if the output is the folder of an input, or contains it."""
    target = store_address(output) or os.path.realpath(output)
    # Each folder is checked only once, because a million images are in few folders, and resolving a
    # path takes 50 us.
    checked: set[str] = set()
    for one in inputs:
        place = os.path.dirname(one) if os.path.isfile(one) and not os.path.islink(one) else one
        if place in checked:
            continue
        checked.add(place)
        real = place if scheme_of(place) else os.path.realpath(place)
        if os.path.join(real, "").startswith(os.path.join(target, "")):
            raise UsageError(f"{os.fspath(output)}: holds the input {one}; name another output")


def store_address(target: str | os.PathLike[str]) -> str | None:
    """Returns the address of an object store without its final slash; None for a path."""
    address = os.fspath(target)
    return normal_address(address).rstrip("/") if scheme_of(address) in STORE_SCHEMES else None


@dataclass(frozen=True)
class _LocalOutput(Output):
    """Folder of an attempt (`commit.py`), whose path is the same for all workers."""

    folder: Path

    @contextmanager
    def new_try(self) -> Iterator[Path]:
        folder = self.folder / WORK_DIR / uuid.uuid4().hex
        folder.mkdir()  # without parents, so that a late task cannot recreate a finished attempt
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def take(self, folder: Path) -> None:
        for file in files_below(folder):
            name = file.relative_to(folder)
            for parent in reversed(name.parents[:-1]):
                if parent.name != WORK_DIR:  # which a late task must not recreate
                    (self.folder / parent).mkdir(exist_ok=True)
            file.rename(self.folder / name)

    def place(self, name: str) -> str:
        return str(self.folder / name)

    def read(self, name: str, start: int = 0, end: int | None = None) -> bytes:
        with (self.folder / name).open("rb") as file:
            file.seek(start)
            return file.read(-1 if end is None else end - start)

    def has(self, name: str) -> bool:
        return (self.folder / name).exists()

    def move(self, name: str, to: str) -> None:
        (self.folder / to).parent.mkdir(exist_ok=True)
        (self.folder / name).rename(self.folder / to)

    def commit(self, manifest: Manifest) -> None:
        over = self.folder / f"{WORK_DIR}-over"
        (self.folder / WORK_DIR).rename(over)  # another attempt at a task may still be writing
        shutil.rmtree(over)
        check_sizes(self.folder, manifest, self._size)
        write_manifest(self.folder, manifest)

    def _size(self, name: str) -> int | None:
        with suppress(FileNotFoundError):
            return os.stat(self.folder / name).st_size
        return None


def files_below(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def check_sizes(place: object, manifest: Manifest, size_of: Callable[[str], int | None]) -> None:
    """Raises a DataError for the first shard whose size differs from the manifest's.

    `size_of` returns the size in bytes of a file by its name, or None if it is missing.
    """
    for shard in manifest.shards:
        size = size_of(shard.file)
        if size != shard.bytes:
            raise DataError(
                f"{place}/{shard.file}: has {'no' if size is None else size} bytes where a worker "
                f"wrote {shard.bytes}; do all workers see this output?"
            )
