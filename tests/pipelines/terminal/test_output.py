"""Names in data cannot command a terminal, and a failed stdout does not undo work."""

import os
import pty
import subprocess
import sys

import pytest

from penstock.pipelines.terminal.output import plain

COMMAND = (sys.executable, "-c", "from penstock.pipelines.cli.main import main; main()")
TITLE = "\x1b]0;taken\x07"


@pytest.fixture
def table(tmp_path):
    """A table of two columns, one of which is named by a command to the terminal."""
    file = tmp_path / "a.csv"
    file.write_text(f"id,{TITLE}\n1,2\n3,4\n")
    return file


def test_control_and_direction_characters_are_escaped():
    assert plain(f"a{TITLE}\tb\nc\x9b\u202e\udcff") == (
        "a\\x1b]0;taken\\x07\tb\nc\\x9b\\u202e\\udcff"
    )


def on_terminal(*arguments, cwd):
    """What a command writes to a terminal."""
    ours, theirs = pty.openpty()
    done = subprocess.Popen([*COMMAND, *arguments], cwd=cwd, stdout=theirs, stderr=theirs)
    os.close(theirs)
    shown = b""
    try:
        while part := os.read(ours, 4096):
            shown += part
    except OSError:  # Linux' way to say that nobody writes any more
        pass
    os.close(ours)
    done.wait()
    return shown


@pytest.mark.parametrize(
    "arguments",
    [
        ("ingest", "a.csv", "shards"),
        ("inspect", "shards"),
        ("ingest", f"{TITLE}.csv", "other"),
        ("pack", "shards", "packed", "--column", f"x{TITLE}"),
        ("run", f"{TITLE}"),
    ],
)
def test_a_column_or_path_with_escapes_reaches_a_terminal_escaped(tmp_path, table, arguments):
    if arguments[1] == "shards":
        on_terminal("ingest", "a.csv", "shards", cwd=tmp_path)
    shown = on_terminal(*arguments, cwd=tmp_path)
    assert b"\x1b]" not in shown  # rich drops the BEL at its end
    assert (b"\\x1b]" in shown) == (arguments[1] != "a.csv")  # an ingest shows no columns


@pytest.mark.parametrize("how", ["full", "closed"])
def test_a_stdout_that_fails_does_not_undo_an_ingest(tmp_path, table, how):
    if how == "full":
        stdout = os.open("/dev/full", os.O_WRONLY)
    else:
        read, stdout = os.pipe()
        os.close(read)
    with os.fdopen(stdout, "w") as out:
        done = subprocess.run(
            [*COMMAND, "ingest", "a.csv", "shards"],
            cwd=tmp_path, stdout=out, stderr=subprocess.PIPE, text=True, check=False,
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "the summary could not be printed" in done.stderr.splitlines()[-1]
    assert (tmp_path / "shards/manifest.json").exists()


def test_a_command_whose_work_is_to_print_fails_on_a_full_stdout(tmp_path, table):
    on_terminal("ingest", "a.csv", "shards", cwd=tmp_path)
    with open("/dev/full", "w") as out:
        done = subprocess.run(
            [*COMMAND, "inspect", "shards"],
            cwd=tmp_path, stdout=out, stderr=subprocess.PIPE, text=True, check=False,
        )  # fmt: skip
    assert (done.returncode, done.stderr) == (1, "penstock: stdout: No space left on device\n")
