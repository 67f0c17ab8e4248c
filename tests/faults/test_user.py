"""Ingests by a user other than root, in folders that root made."""

import multiprocessing
import os
import tempfile
from pathlib import Path

import pytest

from penstock.components.errors import DataError, UsageError
from penstock.components.example_gen.ingest import ingest
from penstock.components.example_gen.options import IngestInput

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user"),
]

NOBODY = 65534


def _as_nobody(answers, source, output, overwrite):
    os.setgroups([])
    os.setgid(NOBODY)
    os.setuid(NOBODY)
    try:
        ingest([IngestInput(str(source))], output, overwrite=overwrite)
        answers.put(None)
    except Exception as error:
        answers.put(error)


def ingest_as_nobody(source, output, *, overwrite=False):
    context = multiprocessing.get_context("fork")
    answers = context.SimpleQueue()
    process = context.Process(target=_as_nobody, args=(answers, source, output, overwrite))
    process.start()
    error = answers.get()
    process.join()
    if error:
        raise error


@pytest.fixture
def folder():
    """A folder that everybody may write to; only root may enter pytest's own folder."""
    with tempfile.TemporaryDirectory() as name:
        os.chmod(name, 0o777)
        (Path(name) / "a.csv").write_text("a,b\n1,2\n3,4\n")
        # If Python is installed in root's home, the user nobody cannot read modules that are not
        # yet imported; so root runs an ingest first, which imports them.
        ingest([IngestInput(f"{name}/a.csv")], f"{name}/roots")
        yield Path(name)


def test_user_overwrites_its_own_output_alone(folder):
    ingest_as_nobody(folder / "a.csv", folder / "out")
    ingest_as_nobody(folder / "a.csv", folder / "out", overwrite=True)
    assert (folder / "out").stat().st_uid == NOBODY
    before = sorted(os.listdir(folder))
    with pytest.raises(UsageError, match=f"{folder}/roots: you may not delete what is there"):
        ingest_as_nobody(folder / "a.csv", folder / "roots", overwrite=True)
    assert sorted(os.listdir(folder)) == before == ["a.csv", "out", "roots"]


def test_folder_without_permission_is_refused_before_work(folder):
    (folder / "locked").mkdir(mode=0o755)
    with pytest.raises(UsageError, match=f"{folder}/locked: you may not write there"):
        ingest_as_nobody(folder / "a.csv", folder / "locked/out")
    assert os.listdir(folder / "locked") == []


def test_input_without_permission_is_named(folder):
    (folder / "a.csv").chmod(0o600)
    with pytest.raises(DataError, match=rf"{folder}/a\.csv: cannot be opened \(Permission denied"):
        ingest_as_nobody(folder / "a.csv", folder / "out")
    assert sorted(os.listdir(folder)) == ["a.csv", "roots"]
