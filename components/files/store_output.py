"""Output on an object store: complete shards under their final names, then the manifest.

    out/.work/claim                                names the process that may write here
    out/Split-train/data_tfrecord-00000-of-00008   put only if the name is free
    out/manifest.json                              the commit, put on the same condition

Only the conditional put excludes other writers (S3's `If-None-Match: *`, Google's
`ifGenerationMatch=0`). A killed process leaves its claim, which only `overwrite` takes over. If
that process is in fact still running, its commit fails.
"""

import re
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from penstock.components.errors import DataError, PenstockError, TriesFailedError, UsageError
from penstock.components.files.address import check_no_secret
from penstock.components.files.commit import occupied, refuse_foreign
from penstock.components.files.content import hash_file
from penstock.components.files.output import WORK_DIR, Output, check_sizes, files_below
from penstock.components.files.remote import RemoteFile, ask, find_below, remote_file
from penstock.components.files.remote_system import file_system
from penstock.components.files.retry import LOGIN_ADVICE, NotThereError, retry_remote
from penstock.components.tfrecord.manifest import MANIFEST_NAME, Manifest, write_manifest
from penstock.components.tfrecord.sharding import split_of

_CLAIM = f"{WORK_DIR}/claim"
_WORKSPACE = f"{WORK_DIR}/workspace-"
# Files that an ingest or a pack left when it was killed before its commit; no manifest lists them.
_LEFT_OVER = re.compile(
    r"Split-[^/]+/data_tfrecord-\d{5,}-of-\d{5,}(\.gz)?|quarantine/rejected-\d{5,}\.jsonl"
    r"|vocabulary/[^/]+\.txt|parquet/[^/]+/data-\d{5,}-of-\d{5,}\.parquet"
    rf"|{re.escape(WORK_DIR)}/.+"
)


@dataclass(frozen=True)
class _StoreOutput(Output):
    """Output below an address (without final slash)."""

    address: str
    writer: bytes  # Content of the claim, unique to this writer; empty for a workspace.

    @contextmanager
    def new_try(self) -> Iterator[Path]:
        with tempfile.TemporaryDirectory(prefix="penstock-try-") as folder:
            yield Path(folder)

    def take(self, folder: Path) -> None:
        for file in files_below(folder):
            create(f"{self.address}/{file.relative_to(folder).as_posix()}", file)
            file.unlink()

    def place(self, name: str) -> str:
        return f"{self.address}/{name}"

    def read(self, name: str, start: int = 0, end: int | None = None) -> bytes:
        data: bytes = ask(f"{self.address}/{name}", "cat_file", start=start or None, end=end)
        return data

    def has(self, name: str) -> bool:
        return bool(ask(f"{self.address}/{name}", "exists"))

    def move(self, name: str, to: str) -> None:
        ask(f"{self.address}/{name}", "cp_file", f"{self.address}/{to}")

    def commit(self, manifest: Manifest) -> None:
        names = _names(self.address)
        sizes = {name: file.size or 0 for name, file in names.items()}
        check_sizes(self.address, manifest, sizes.get)
        if not self.has_claim():
            raise DataError(f"{self.address}: another ingest took over here; start again")
        listed = {shard.file for shard in manifest.shards}
        for name, file in names.items():  # files of an earlier ingest
            if split_of(name) is not None and name not in listed:
                ask(file, "rm_file")
        with self.new_try() as folder:
            write_manifest(folder, manifest)
            self.take(folder)

    def claim(self, *, take_over: bool) -> None:
        if take_over:
            ask(f"{self.address}/{_CLAIM}", "pipe_file", self.writer)
            return
        with self.new_try() as folder:
            mark = folder / "claim"
            mark.write_bytes(self.writer)
            try:
                create(f"{self.address}/{_CLAIM}", mark)
            except DataError as error:
                if not isinstance(error.__cause__, FileExistsError):
                    raise
                raise UsageError(
                    f"{self.address}: another ingest is writing here, or was killed; wait for it "
                    "or name another output; --overwrite takes over from a killed one"
                ) from error

    def has_claim(self) -> bool:
        try:
            return self.read(_CLAIM) == self.writer
        except NotThereError:
            return False


def check_prefix(address: str, *, overwrite: bool) -> dict[str, RemoteFile]:
    """Returns the files below an address by name; raises UsageError if no output may go there."""
    check_no_secret(address, LOGIN_ADVICE)
    if not address.partition("://")[2].partition("/")[2]:
        raise UsageError(f"{address}: a bucket cannot be an output; name a folder in it")
    names = _names(address)
    if MANIFEST_NAME in names:
        if not overwrite:
            raise occupied(address)
        ours = [name for name in names if not name.startswith(f"{WORK_DIR}/")]
        refuse_foreign(address, lambda: _read_manifest(address), ours)
    elif foreign := [name for name in names if not _LEFT_OVER.fullmatch(name)]:
        raise UsageError(
            f"{address}: holds {foreign[0]}, which no ingest wrote; refusing to write beside it; "
            "name another output"
        )
    return names


def _read_manifest(address: str) -> Manifest:
    path = f"{address}/{MANIFEST_NAME}"
    return Manifest.from_json(ask(path, "cat_file").decode(errors="replace"), path)


@contextmanager
def open_store(address: str, *, overwrite: bool) -> Iterator[_StoreOutput]:
    """Claims an address and removes old output and leftovers there; releases the claim at the end.

    While an output is overwritten, readers see no output until the new one is committed.
    """
    names = check_prefix(address, overwrite=overwrite)
    output = _StoreOutput(address, uuid.uuid4().bytes)
    output.claim(take_over=overwrite and _CLAIM in names)
    try:
        check_prefix(address, overwrite=overwrite)  # another ingest may have finished meanwhile
        _clear(output, MANIFEST_NAME)  # removed before the files that it lists
        _clear(output, but=_WORKSPACE)  # this ingest may have rows in a workspace
        yield output
    finally:
        with suppress(PenstockError):  # on an error, the next ingest removes the rest
            if output.has_claim():
                _clear(output, *([WORK_DIR] if MANIFEST_NAME in _names(address) else []))
                ask(f"{address}/{_CLAIM}", "rm_file")


@contextmanager
def open_store_workspace(address: str) -> Iterator[_StoreOutput]:
    """Yields a new prefix, without a claim, below an address; removes all its files at the end."""
    work = _StoreOutput(f"{address}/{_WORKSPACE}{uuid.uuid4().hex}", b"")
    try:
        yield work
    finally:
        with suppress(PenstockError):
            _clear(work)


def create(address: str, file: Path) -> None:
    """Puts a file under a new name; raises DataError if the name already has other content."""
    try:
        put = file_system(address).put_file
        retry_remote(address, lambda: put(str(file), address, mode="create"), "written")
    except FileExistsError as error:
        # The file exists with the same content if an earlier request put it but its answer was
        # lost, or if another attempt at this task put it.
        if not _is_equal(address, file):
            raise DataError(f"{address}: another ingest wrote this meanwhile") from error


def _is_equal(address: str, file: Path) -> bool:
    try:
        return hash_file(remote_file(address)).digest == hash_file(str(file)).digest
    except TriesFailedError:
        raise
    except DataError:  # the file changed while it was read
        return False


def _names(address: str) -> dict[str, RemoteFile]:
    start = len(address) + 1
    try:
        return {file[start:]: file for file in find_below(address)}
    except NotThereError:
        return {}


def _clear(output: _StoreOutput, *only: str, but: tuple[str, ...] | str = ()) -> None:
    """Removes files below an output's address, except the claim.

    A file is removed if its name begins with one of `only` (by default any name), and does not
    begin with `but`.
    """
    for name, file in _names(output.address).items():
        if name != _CLAIM and name.startswith(only or ("",)) and not name.startswith(but):
            with suppress(NotThereError):
                ask(file, "rm_file")
