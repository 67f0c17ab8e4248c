"""Where an ingest's files go: a folder that appears by one rename, or a prefix of an object store.

    with open_output("s3://bucket/shards") as output:   # the process that plans
        with output.new_try() as folder:                # a worker, a task
            ...                                         # write below the folder
            output.take(folder)                         # whole files, under their final names
        output.commit(manifest)                         # readers see all, or nothing

Nothing else is shared by workers and the process that plans. An output is picklable.
"""

import os
import shutil
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from penstock.components.errors import DataError
from penstock.components.files.address import scheme_of
from penstock.components.files.commit import attempt, beside, check_target
from penstock.components.files.remote import normal_address
from penstock.components.tfrecord.manifest import Manifest, write_manifest

# What is there until the commit and gone afterwards.
WORK_DIR = ".work"
STORE_SCHEMES = ("s3", "gs")


class Output(ABC):
    """An output that is being written; names are relative, with slashes."""

    @abstractmethod
    def new_try(self) -> AbstractContextManager[Path]:
        """A new, empty folder on this machine for one try at a task; it is gone afterwards."""

    @abstractmethod
    def take(self, folder: Path) -> None:
        """Give each file below a try's folder its name in the output, whole.

        Two tries at a task give files of equal bytes; either stands.

        Raises:
            OSError: The output is gone, or there is no room; another try may succeed.
        """

    @abstractmethod
    def read(self, name: str, start: int = 0, end: int | None = None) -> bytes:
        """The bytes of a file that was taken, from `start` up to `end`."""

    @abstractmethod
    def has(self, name: str) -> bool:
        """Whether a file of that name was taken."""

    @abstractmethod
    def move(self, name: str, to: str) -> None:
        """Give a file that was taken another name, in the process that plans."""

    @abstractmethod
    def commit(self, manifest: Manifest) -> None:
        """Hold the files against the manifest, and write it as the last.

        Raises:
            DataError: A shard is not as its writer said, or another wrote here meanwhile.
        """


@contextmanager
def open_output(target: str | os.PathLike[str], *, overwrite: bool = False) -> Iterator[Output]:
    """An output at a path or at an address; nothing stays of it without a `commit`.

    Raises:
        UsageError: As of `check_output`, or another ingest is writing to the address.
    """
    address = store_address(target)
    if address:
        from penstock.components.files.store_output import open_store

        with open_store(address, overwrite=overwrite) as store:
            yield store
    else:
        with attempt(target, overwrite=overwrite) as folder:
            (folder / WORK_DIR).mkdir()
            yield LocalOutput(folder)


@contextmanager
def open_workspace(target: str | os.PathLike[str]) -> Iterator[Output]:
    """What workers share with who plans before there is an output: beside a path, below an address.

    Never committed, and gone afterwards; what the killed leave, the next ingest there removes.
    """
    address = store_address(target)
    if address:
        from penstock.components.files.store_output import open_store_workspace

        with open_store_workspace(address) as store:
            yield store
    else:
        with beside(Path(os.path.abspath(target))) as folder:
            (folder / WORK_DIR).mkdir()
            yield LocalOutput(folder)


def check_output(target: str | os.PathLike[str], *, overwrite: bool = False) -> None:
    """Refuse an output that cannot be written, before work is done for it.

    Raises:
        UsageError: It holds something and `overwrite` is off, or what no ingest wrote; or nothing
            is written to addresses of its scheme.
    """
    address = store_address(target)
    if address:
        from penstock.components.files.store_output import check_prefix

        check_prefix(address, overwrite=overwrite)
    else:
        check_target(target, overwrite=overwrite)


def store_address(target: str | os.PathLike[str]) -> str | None:
    """An address of an object store as its client knows it, less a last slash; None of a path."""
    address = os.fspath(target)
    return normal_address(address).rstrip("/") if scheme_of(address) in STORE_SCHEMES else None


@dataclass(frozen=True)
class LocalOutput(Output):
    """The folder of an attempt (`commit.py`), seen by all workers under one path."""

    folder: Path

    @contextmanager
    def new_try(self) -> Iterator[Path]:
        """See `Output`."""
        folder = self.folder / WORK_DIR / uuid.uuid4().hex
        folder.mkdir()  # not its parents: a late try does not bring back an attempt that is over
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def take(self, folder: Path) -> None:
        """See `Output`."""
        for file in files_below(folder):
            name = file.relative_to(folder)
            for parent in reversed(name.parents[:-1]):
                if parent.name != WORK_DIR:  # a late try does not bring it back
                    (self.folder / parent).mkdir(exist_ok=True)
            file.rename(self.folder / name)

    def read(self, name: str, start: int = 0, end: int | None = None) -> bytes:
        """See `Output`."""
        with (self.folder / name).open("rb") as file:
            file.seek(start)
            return file.read(-1 if end is None else end - start)

    def has(self, name: str) -> bool:
        """See `Output`."""
        return (self.folder / name).exists()

    def move(self, name: str, to: str) -> None:
        """See `Output`."""
        (self.folder / to).parent.mkdir(exist_ok=True)
        (self.folder / name).rename(self.folder / to)

    def commit(self, manifest: Manifest) -> None:
        """See `Output`."""
        over = self.folder / f"{WORK_DIR}-over"
        (self.folder / WORK_DIR).rename(over)  # of two tries at a task one may still be writing
        shutil.rmtree(over)
        check_sizes(self.folder, manifest, self._size)
        write_manifest(self.folder, manifest)

    def _size(self, name: str) -> int | None:
        with suppress(FileNotFoundError):
            return os.stat(self.folder / name).st_size
        return None


def files_below(folder: Path) -> list[Path]:
    """All files below a folder, in order."""
    return sorted(path for path in folder.rglob("*") if path.is_file())


def check_sizes(place: object, manifest: Manifest, size_of: Callable[[str], int | None]) -> None:
    """Refuse shards that are not as their writers said.

    Args:
        place: The output, for messages.
        manifest: What was written.
        size_of: Bytes of a file by its name; None if it is not there.

    Raises:
        DataError: Names the first.
    """
    for shard in manifest.shards:
        size = size_of(shard.file)
        if size != shard.bytes:
            raise DataError(
                f"{place}/{shard.file}: has {'no' if size is None else size} bytes where a worker "
                f"wrote {shard.bytes}; do all workers see this output?"
            )
