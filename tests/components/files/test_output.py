import os
from contextlib import suppress

import pytest

from penstock.components.files.output import WORK_DIR, open_output
from penstock.components.tfrecord.manifest import Manifest, RowAccount


def test_a_try_that_still_runs_does_not_spoil_the_commit(tmp_path, monkeypatch):
    """An attempt whose result Spark or Flink will not use begins during the commit's cleanup."""
    rmdir = os.rmdir

    def rmdir_late(path, **at):
        with suppress(FileNotFoundError):
            (folder / WORK_DIR / "late").mkdir()
        rmdir(path, **at)

    with open_output(tmp_path / "out") as output:
        folder = output.folder
        monkeypatch.setattr(os, "rmdir", rmdir_late)
        account = RowAccount(read=0, written={})
        output.commit(Manifest({}, (), "0", "spark", "1", 0, account))
        monkeypatch.undo()
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["manifest.json"]


def test_a_try_that_is_done_after_the_commit_leaves_no_folder(tmp_path):
    """Like a second, speculative attempt of Spark at a task, which ends after the commit."""
    with open_output(tmp_path / "out") as output:
        with output.new_try() as folder:
            (folder / WORK_DIR / "00003-7-00000").mkdir(parents=True)
            (folder / WORK_DIR / "00003-7-00000" / "shard").touch()
            kept = folder.rename(tmp_path / "try")
        account = RowAccount(read=0, written={})
        output.commit(Manifest({}, (), "0", "spark", "1", 0, account))
        with pytest.raises(FileNotFoundError):
            output.take(kept)
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["manifest.json"]
