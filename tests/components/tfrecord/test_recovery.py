import multiprocessing
import os
import signal
from pathlib import Path

import pytest

from penstock.components.errors import UsageError
from penstock.components.files import commit
from penstock.components.files.commit import attempt
from penstock.components.files.find import find
from penstock.components.tfrecord.manifest import read_manifest
from penstock.components.tfrecord.recovery import locked, recover
from tests.components.files.test_commit import finished

pytestmark = pytest.mark.slow


def _write_beside(out):
    with attempt(out.parent / "other"):
        pass
    (out.parent / "other").rmdir()


def _write_there(out):
    with pytest.raises(UsageError, match=f"{out.name} exists already"):
        attempt(out).__enter__()


def _killed_between_renames(target):
    commit.exchange = lambda first, second: False  # as on NFS
    rename = Path.rename

    def kill(path, to):
        if Path(to) == target:
            os.kill(os.getpid(), signal.SIGKILL)
        return rename(path, to)

    Path.rename = kill
    with attempt(target, overwrite=True):
        pass


@pytest.fixture(params=["out", "o" * 255])
def torn(tmp_path, request):
    """Path of a missing output: the process that replaced it was killed between two renames."""
    target = tmp_path / request.param
    finished(target)
    process = multiprocessing.get_context("fork").Process(
        target=_killed_between_renames, args=(target,)
    )
    process.start()
    process.join()
    assert process.exitcode == -signal.SIGKILL
    assert not target.exists()
    return target


@pytest.mark.parametrize(
    "look",
    [
        read_manifest,
        _write_beside,
        _write_there,
        lambda out: find(str(out), "shards"),
        lambda out: find(f"{out}/Split-train/*", "shards"),
        lambda out: find(f"{out}/Split-train/a", "tfrecord"),
    ],
)
def test_every_reader_and_writer_finds_the_old_output_again(torn, look):
    look(torn)
    assert (torn / "Split-train" / "a").read_text() == "old"
    assert os.listdir(torn.parent) == [torn.name]


def test_a_replacement_at_work_is_left_to_it(tmp_path):
    attempt_at_out = tmp_path / ".out.penstock-attempt-1"
    (tmp_path / ".out.penstock-attempt-1-replaced").mkdir()
    with locked(attempt_at_out.with_name(attempt_at_out.name + ".lock")):
        recover(tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_lock_taken_for_abandoned_before_it_was_held_is_made_anew(tmp_path, monkeypatch):
    import fcntl

    flock = fcntl.flock

    def taken_away(file, how):
        monkeypatch.setattr(fcntl, "flock", flock)
        os.unlink(file.name)
        flock(file, how)

    monkeypatch.setattr(fcntl, "flock", taken_away)
    with locked(tmp_path / "lock"):
        assert os.listdir(tmp_path) == ["lock"]
