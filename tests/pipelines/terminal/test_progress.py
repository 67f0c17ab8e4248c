import io
import re

from rich.console import Console

from penstock.components.activity import Activity
from penstock.pipelines.terminal import progress
from penstock.pipelines.terminal.progress import _LiveTable, make_progress


def _without_seconds(text):
    """Hides the seconds, because a busy machine may take some time between two events."""
    return re.sub(r"\b\d+\.\d s\b|\b\d:\d\d:\d\d\b", "N s", text)


def live(screen):
    return _LiveTable(Console(file=screen, force_terminal=True, width=60), "penstock run taxi")


def play(shown):
    with shown:
        shown.log("runs/taxi/logs/now.log")
        shown.plan(["Transform", "Trainer", "Pusher"])
        shown.start("Transform")
        shown.end("Transform", "cached")
        shown.start("Trainer")
        shown.tell(Activity("step 10 of 40, loss 0.3"))
        shown.tell(Activity("epoch 1  step 20", is_milestone=True))
        shown.end("Trainer", "failed")


def test_a_line_a_node_where_there_is_no_terminal():
    screen = io.StringIO()
    play(make_progress(screen, "penstock run taxi"))
    assert _without_seconds(screen.getvalue()) == (
        "penstock run taxi\n"
        "  log: runs/taxi/logs/now.log\n"
        "  Transform  cached      N s\n"
        "  Trainer    epoch 1  step 20\n"
        "  Trainer    failed      N s\n"
    )


def test_a_table_of_all_nodes_on_a_terminal():
    screen = io.StringIO()
    play(live(screen))
    text = _without_seconds(re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", screen.getvalue()))
    last = [re.sub(r"\s+", " ", line).strip() for line in text.rstrip().splitlines()[-3:]]
    assert text.startswith("penstock run taxi")
    assert last == [
        "Transform cached N s",
        "Trainer failed N s",
        "Pusher waiting -:--:--",
    ]


def test_the_running_node_says_how_far_it_is():
    screen = io.StringIO()
    table = live(screen)
    with table:
        table.plan(["Trainer"])
        table.start("Trainer")
        table.tell(Activity("step 10 of 40, loss 0.3"))
    assert re.search(r"Trainer running .*0:\d\d:\d\d.* step 10 of 40, loss 0\.3", screen.getvalue())


def test_what_is_told_between_two_nodes_belongs_to_neither():
    screen = io.StringIO()
    table = live(screen)
    with table:
        table.tell(Activity("before the plan"))
        table.plan(["Trainer"])
        table.tell(Activity("before the first node"))
        table.start("Trainer")
        table.end("Trainer", "done")
        table.tell(Activity("after the last node"))
    assert "Trainer" in screen.getvalue()
    assert not re.search("before the|after the", screen.getvalue())


def test_nothing_is_printed_where_quiet_was_asked_for():
    screen = io.StringIO()
    play(make_progress(screen, "penstock run taxi", quiet=True))
    assert screen.getvalue() == ""


def test_a_terminal_gets_a_table_without_colour_where_none_is_asked_for(monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    screen = io.StringIO()
    monkeypatch.setattr(screen, "isatty", lambda: True)
    table = make_progress(screen, "penstock run taxi")
    assert isinstance(table, _LiveTable)
    play(table)
    assert not re.search(r"\x1b\[(?:\d+;)*3\dm", screen.getvalue())


def test_long_task_prints_lines_where_there_is_no_terminal(monkeypatch, capsys):
    monkeypatch.setattr(progress, "SECONDS_BETWEEN_LINES", 0.0)
    with progress.work_progress("{:,} rows".format) as on_progress:
        on_progress(0, None)
        on_progress(1500, 3000)
    first, second = capsys.readouterr().err.splitlines()
    assert first == "0 rows, 0 rows/s"
    assert re.fullmatch(r"1,500 rows of 3,000 rows, [\d,]+ rows/s, 0 s left", second)


def test_long_task_prints_a_line_every_ten_seconds_at_most(capsys):
    with progress.work_progress("{:,} rows".format) as on_progress:
        on_progress(1, 2)
    assert capsys.readouterr().err == ""


def test_long_task_draws_a_bar_on_a_terminal(monkeypatch, capsys):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    with progress.work_progress("{:,} rows".format) as on_progress:
        on_progress(1500, 3000)
    assert "1,500 rows" in capsys.readouterr().err
