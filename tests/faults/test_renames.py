"""Commands that are killed, or told to stop, before each of their renames.

After each interruption, the output is the old or the new one, and is complete; if there was no old
one, it may be missing. If folders cannot be exchanged, `recover` may have to restore the old output
first. Repeating the command gives the result of an uninterrupted command, and nothing else is left.
"""

import os
import shutil
import signal
from dataclasses import dataclass

import pytest

from penstock.components.tfrecord.recovery import recover

pytestmark = pytest.mark.slow

IMAGE = "registry.example/penstock@sha256:" + "0" * 64
ROWS = [f"{i},{i % 7 / 4},{'ab'[i % 2]}" for i in range(400)]


@dataclass(frozen=True)
class Case:
    """A command that creates or replaces an output.

    Attributes:
        command: Arguments of the command.
        output: Output of the command.
        before: The command that made the output that exists at the start; None if none exists.
        is_fixed: Whether the output is the same each time.
        exchange: Whether the file system can exchange two folders in one step; if not, the next
            reader may have to restore the old output.
    """

    command: tuple
    output: str = "out"
    before: tuple | None = None
    is_fixed: bool = True
    exchange: bool = True


INGEST = ("ingest", "--shards", "1", "--on-bad-row", "quarantine", "--overwrite")
PACK = ("pack", "rows", "out", "--shards", "1")
CASES = {
    "ingest": Case((*INGEST, "new.csv", "out")),
    "ingest again": Case((*INGEST, "new.csv", "out"), before=(*INGEST, "old.csv", "out")),
    "ingest again without exchange": Case(
        (*INGEST, "new.csv", "out"), before=(*INGEST, "old.csv", "out"), exchange=False
    ),
    "pack": Case((*PACK, "--overwrite")),
    "pack again": Case((*PACK, "--overwrite", "--seed", "7"), before=PACK),
    # The output of `init` contains full paths of the data, so it is not the same each time.
    "init": Case(("init", "out", "--data", "old.csv", "--target", "c"), is_fixed=False),
    "compile": Case(
        ("compile", "taxi", "--image", IMAGE, "--out", "taxi.yaml", "--overwrite"),
        output="taxi.yaml",
        before=("compile", "ingest", "--image", IMAGE, "--out", "taxi.yaml"),
    ),
}


@pytest.fixture(scope="module")
def inputs(tmp_path_factory, penstock):
    folder = tmp_path_factory.mktemp("inputs")
    (folder / "old.csv").write_text("a,b,c\n" + "\n".join(ROWS[:200]))
    bad = ["1,no number,a", *ROWS[:99], "2,none,b", *ROWS[99:]]
    (folder / "new.csv").write_text("a,b,c\n" + "\n".join([*ROWS, *bad]))
    done = penstock("ingest", "old.csv", "rows", cwd=folder)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("how", ["SIGKILL", "SIGTERM"])
def test_output_interrupted_at_any_rename_is_the_old_or_the_new_one(
    tmp_path, inputs, interrupted, tree, name, how
):
    case = CASES[name]
    clean, start = tmp_path / "clean", tmp_path / "start"
    for folder in (clean, start):
        shutil.copytree(inputs, folder)
        if case.before:
            assert interrupted(*case.before, cwd=folder).returncode == 0
    before = tree(start / case.output) if case.before else None
    done = interrupted(*case.command, cwd=clean, exchange=case.exchange)
    assert done.returncode == 0, done.stderr
    after, places = tree(clean / case.output), interrupted.places
    assert places

    were_gone = 0
    for at, place in enumerate(places, 1):
        work = tmp_path / f"{at}"
        shutil.copytree(start, work)
        ended = interrupted(*case.command, place=at, signal=how, cwd=work, exchange=case.exchange)
        assert ended.returncode == (-signal.SIGKILL if how == "SIGKILL" else 130), (place, ended)
        output = work / case.output
        if not case.exchange:
            were_gone += not output.exists()
            recover(output)
        found = tree(output) if output.exists() else None
        assert found in (before, after) or (not case.is_fixed and set(found) == set(after)), place
        if how == "SIGTERM":
            assert ended.stderr.splitlines()[-1].startswith("penstock: interrupted"), ended.stderr
            assert set(os.listdir(work)) - {case.output} == set(os.listdir(inputs)), place
        if found == before:
            again = interrupted(*case.command, cwd=work)
            assert again.returncode == 0, (place, again.stderr)
        assert set(tree(output)) == set(after), place
        if case.is_fixed:
            assert tree(output) == after, place
        assert sorted(os.listdir(work)) == sorted(os.listdir(clean)), place
    # This shows that the check notices a missing output: if folders cannot be exchanged, one of the
    # SIGKILLs leaves no output.
    assert were_gone == (how == "SIGKILL" and not case.exchange)
