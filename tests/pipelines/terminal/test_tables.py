"""Names in data cannot control a terminal, and a failed stdout does not undo work."""

import os
import pty
import subprocess
import sys
import threading

import pytest

from penstock import ingest
from penstock.pipelines.terminal.tables import console, plain, print_table

COMMAND = (sys.executable, "-c", "from penstock.pipelines.cli.main import main; main()")
TITLE = "\x1b]0;taken\x07"


@pytest.fixture
def table(tmp_path):
    """A table of two columns; the name of one is an escape sequence for the terminal."""
    file = tmp_path / "a.csv"
    file.write_text(f"id,{TITLE}\n1,2\n3,4\n")
    return file


def test_control_and_direction_characters_are_escaped():
    assert plain(f"a{TITLE}\tb\nc\x9b\u202e\udcff") == (
        "a\\x1b]0;taken\\x07\tb\nc\\x9b\\u202e\\udcff"
    )


@pytest.fixture
def on_terminal(penstock, tmp_path):
    """A function that returns the output of a command on a terminal."""

    def run(*arguments):
        ours, theirs = pty.openpty()
        terminal = os.ttyname(theirs)
        started = penstock.start(*arguments, cwd=tmp_path, out=terminal, err=terminal)

        def close_at_its_end():
            started.wait()
            os.close(theirs)

        closing = threading.Thread(target=close_at_its_end)
        closing.start()
        shown = b""
        try:
            while part := os.read(ours, 4096):
                shown += part
        except OSError:  # Linux's error once no process has the other end open
            pass
        closing.join()
        os.close(ours)
        return shown

    return run


@pytest.mark.slow
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
def test_a_column_or_path_with_escapes_reaches_a_terminal_escaped(
    tmp_path, table, on_terminal, arguments
):
    if arguments[1] == "shards":
        ingest(str(table), tmp_path / "shards")
    shown = on_terminal(*arguments)
    assert b"\x1b]" not in shown  # rich drops the sequence's final BEL
    assert (b"\\x1b]" in shown) == (arguments[1] != "a.csv")  # an ingest shows no columns


def test_a_full_stdout_does_not_undo_an_ingest(tmp_path, table, penstock):
    done = penstock("ingest", "a.csv", "shards", cwd=tmp_path, out="/dev/full")
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("penstock: No space left on device; ")
    assert (tmp_path / "shards/manifest.json").exists()


@pytest.mark.parametrize("words", ["ingest --help", "--help", "--version"])
def test_help_on_a_full_stdout_is_one_line(penstock, words):
    done = penstock(*words.split(), out="/dev/full")
    assert done.returncode == 1
    [line] = done.stderr.splitlines()
    assert line.startswith("penstock: No space left on device; ")


@pytest.mark.parametrize("words", ["ingest a.csv shards", "--help"])
def test_a_closed_stdout_ends_a_command_silently(tmp_path, table, words):
    read, stdout = os.pipe()
    os.close(read)
    with os.fdopen(stdout, "w") as out:
        done = subprocess.run(
            [*COMMAND, *words.split()],
            cwd=tmp_path, stdout=out, stderr=subprocess.PIPE, text=True, check=False,
        )  # fmt: skip
    assert done.returncode == 1
    assert "penstock:" not in done.stderr
    assert "Exception" not in done.stderr
    assert (tmp_path / "shards/manifest.json").exists() == (words != "--help")


def test_columns_stand_below_each_other_where_characters_are_wide(capsys):
    print_table(console(), "cities", ("city", "rows"), [("東京", "66"), ("Zürich", "7")])
    assert capsys.readouterr().out.splitlines() == [
        "cities",
        "  city    rows",
        "  東京    66",
        "  Zürich  7",
    ]
