import errno
import io
import os
import resource
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.components.errors import DataError
from penstock.components.files import retry
from penstock.components.files.content import hash_file, open_data
from penstock.components.files.find import find
from penstock.components.sources.open import open_source

pytestmark = pytest.mark.slow


@pytest.fixture
def waited(monkeypatch):
    """The seconds that a read would wait between its tries; in the test, it does not wait."""
    seconds = []
    monkeypatch.setattr(retry, "time", SimpleNamespace(sleep=seconds.append))
    return seconds


@pytest.fixture
def faulty(monkeypatch):
    """After n reads, `faulty(n, code, times)` makes the next `times` reads fail with `code`."""

    def make(good, code, times=1):
        state = {"reads": 0, "failed": 0}

        def readinto(file, buffer):
            state["reads"] += 1
            if state["reads"] > good and state["failed"] < times:
                state["failed"] += 1
                raise OSError(code, os.strerror(code))
            return io.FileIO.readinto(file, buffer)

        monkeypatch.setattr(retry, "_readinto", readinto)
        return state

    return make


@pytest.mark.parametrize("code", [errno.EIO, errno.ESTALE])
@pytest.mark.parametrize(("kind", "times"), [("csv", 1), ("csv", 4), ("parquet", 1)])
def test_a_read_that_fails_for_a_moment_goes_on_where_it_was(
    tmp_path, faulty, waited, code, kind, times
):
    path = tmp_path / f"a.{kind}"
    if kind == "csv":
        path.write_text("id,name\n" + "".join(f"{i},x\n" for i in range(50_000)))
    else:
        pq.write_table(pa.table({"id": range(50_000)}), path, row_group_size=3000)
    faulty(8, code, times)
    source = open_source(str(path))
    batches = [batch for run in source.cut(3) for batch in source.read(run)]
    ids = [i for batch in batches for i in batch.table.column(0).to_pylist()]
    assert ids == list(range(50_000))
    assert waited == [0.5, 2.0, 8.0, 30.0][:times]


# A file whose reads at offset 0 always fail with EIO, because no process has memory there.
UNREADABLE = Path("/proc/self/mem")


@pytest.mark.skipif(not UNREADABLE.exists(), reason="needs Linux")
def test_read_that_the_kernel_fails_is_retried_and_then_named(tmp_path, monkeypatch):
    path, tries = tmp_path / "a.csv", []

    def comes_back(seconds):
        tries.append(seconds)
        if len(tries) == 2:
            path.unlink()
            path.write_text("id\n1\n2\n")

    monkeypatch.setattr(retry, "time", SimpleNamespace(sleep=comes_back))
    path.symlink_to(UNREADABLE)
    assert hash_file(str(path)).size == 7
    assert tries == [0.5, 2.0]
    said = (
        r"mem: cannot be read, 5 tries failed \(Input/output error\); check the disk or the mount"
    )
    with pytest.raises(DataError, match=said):
        hash_file(str(UNREADABLE))


def test_what_is_no_fault_of_the_moment_is_not_tried_again(tmp_path, waited):
    with pytest.raises(DataError, match=r"/a: cannot be opened \(No such file"):
        open_data(str(tmp_path / "a"))
    assert waited == []


def test_a_folder_that_cannot_be_listed_for_a_moment(tmp_path, monkeypatch, waited):
    (tmp_path / "a.csv").write_text("x")
    scandir, errors = os.scandir, [OSError(errno.ESTALE, "Stale file handle")]

    def stale(path):
        if errors and str(path) == str(tmp_path):
            raise errors.pop()
        return scandir(path)

    monkeypatch.setattr(os, "scandir", stale)
    assert len(find(str(tmp_path), "csv").files) == 1
    assert waited == [0.5]


def test_open_of_too_many_files_names_the_remedy(tmp_path):
    (tmp_path / "a").write_bytes(b"abc")
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, limits[1]))
    try:
        with pytest.raises(DataError) as caught:
            open_data(str(tmp_path / "a"))
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    assert str(caught.value) == (
        f"{tmp_path}/a: cannot be opened (Too many open files; raise the limit on open files "
        "(ulimit -n))"
    )
