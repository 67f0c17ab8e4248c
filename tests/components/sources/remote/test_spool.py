"""Copies of remote files: room for them, and that none is left behind."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.components.errors import DataError
from penstock.components.sources import spool
from penstock.components.sources.remote import RemoteFile


def data_error(call):
    with pytest.raises(DataError) as caught:
        call()
    return str(caught.value)


def test_no_room_for_a_copy(tmp_path):
    file = RemoteFile("s3://bucket/large", 2**60, "v")
    message = data_error(lambda: spool.local_path(file))
    assert message.startswith("s3://bucket/large: 1152921504606846976 bytes do not fit into the ")
    assert list((tmp_path / "spool").iterdir()) == []


def test_copies_of_a_killed_process_are_removed(tmp_path):
    code = (
        "import os, signal; from penstock.components.sources import spool; "
        "print(spool._spool(), flush=True); os.kill(os.getpid(), signal.SIGKILL)"
    )
    environment = {**os.environ, "TMPDIR": str(tmp_path / "spool")}
    environment.pop("PENSTOCK_SPOOL", None)
    first = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True)
    assert Path(first.stdout.decode().strip()).is_dir()
    clean = code.replace("os.kill(os.getpid(), signal.SIGKILL)", "None")
    subprocess.run([sys.executable, "-c", clean], env=environment, check=True, capture_output=True)
    assert list((tmp_path / "spool").iterdir()) == []
