"""Copies of remote files: they need free space, and no copy is left behind."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from reading import data_error

from penstock.components.files import spool
from penstock.components.files.remote import RemoteFile, remote_file


@pytest.mark.slow
def test_no_room_for_a_copy(tmp_path):
    file = RemoteFile("s3://bucket/large", 2**60, "v")
    message = data_error(lambda: spool.local_path(file))
    assert message.startswith("s3://bucket/large: 1152921504606846976 bytes do not fit into the ")
    assert list((tmp_path / "spool").iterdir()) == []


@pytest.mark.slow
def test_copies_of_a_killed_process_are_removed(tmp_path):
    code = (
        "import os, signal; from penstock.components.files import spool; "
        "print(spool._spool(), flush=True); os.kill(os.getpid(), signal.SIGKILL)"
    )
    environment = {**os.environ, "TMPDIR": str(tmp_path / "spool")}
    environment.pop("PENSTOCK_SPOOL", None)
    first = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True)
    assert Path(first.stdout.decode().strip()).is_dir()
    clean = code.replace("os.kill(os.getpid(), signal.SIGKILL)", "None")
    subprocess.run([sys.executable, "-c", clean], env=environment, check=True, capture_output=True)
    assert list((tmp_path / "spool").iterdir()) == []


@pytest.mark.slow
def test_a_disk_that_is_full(google, monkeypatch):
    google.objects["a.csv"] = b"x" * 100_000
    file = remote_file("gs://b/a.csv")
    with open("/dev/full", "wb", buffering=0) as full:
        monkeypatch.setattr(Path, "open", lambda *_, **__: full)
        message = data_error(lambda: spool.local_path(file))
    assert message == (
        "gs://b/a.csv: cannot be copied to /dev (No space left on device); point TMPDIR at "
        "another disk"
    )


def test_copies_are_removed_and_made_anew(google, tmp_path):
    google.objects["a.csv"] = b"x"
    file = remote_file("gs://b/a.csv")
    copy = spool.local_path(file)
    assert Path(copy).read_bytes() == b"x"
    spool.remove_copies()
    assert list((tmp_path / "spool").iterdir()) == []
    assert spool.local_path(file) == copy
    assert Path(copy).read_bytes() == b"x"


def test_a_local_path_is_its_own_copy():
    assert spool.local_path("d/a::b.csv") == "d/a::b.csv"
    assert spool.local_path("a::b.csv") == "a::b.csv"
