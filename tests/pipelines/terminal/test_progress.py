import io
import re

from rich.console import Console

from penstock.pipelines.terminal.progress import Lines, LiveTable, make_progress


def play(progress):
    with progress:
        progress.plan(["Transform", "Trainer", "Pusher"])
        progress.start("Transform")
        progress.end("Transform", "cached")
        progress.start("Trainer")
        progress.end("Trainer", "failed")


def test_a_line_a_node_where_there_is_no_terminal():
    screen = io.StringIO()
    progress = make_progress(screen, "penstock run taxi")
    assert isinstance(progress, Lines)
    play(progress)
    assert screen.getvalue() == (
        "penstock run taxi\n  Transform  cached      0.0 s\n  Trainer    failed      0.0 s\n"
    )


def test_a_table_of_all_nodes_on_a_terminal():
    screen = io.StringIO()
    play(LiveTable(Console(file=screen, force_terminal=True, width=60), "penstock run taxi"))
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", screen.getvalue())
    last = [re.sub(r"\s+", " ", line).strip() for line in text.rstrip().splitlines()[-4:]]
    assert last == [
        "penstock run taxi",
        "Transform cached 0.0 s",
        "Trainer failed 0.0 s",
        "Pusher waiting",
    ]


def test_a_terminal_gets_the_table(monkeypatch):
    screen = io.StringIO()
    monkeypatch.setattr(screen, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    assert isinstance(make_progress(screen, "penstock run taxi"), LiveTable)
