import re

from penstock.pipelines.terminal import work_progress


def test_lines_where_there_is_no_terminal(monkeypatch, capsys):
    monkeypatch.setattr(work_progress, "SECONDS_BETWEEN_LINES", 0.0)
    with work_progress.work_progress("{:,} rows".format) as on_progress:
        on_progress(0, None)
        on_progress(1500, 3000)
    first, second = capsys.readouterr().err.splitlines()
    assert first == "0 rows, 0 rows/s"
    assert re.fullmatch(r"1,500 rows of 3,000 rows, [\d,]+ rows/s, 0 s left", second)


def test_a_line_every_ten_seconds_at_most(capsys):
    with work_progress.work_progress("{:,} rows".format) as on_progress:
        on_progress(1, 2)
    assert capsys.readouterr().err == ""


def test_a_bar_on_a_terminal(monkeypatch, capsys):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    with work_progress.work_progress("{:,} rows".format) as on_progress:
        on_progress(1500, 3000)
    assert "1,500 rows" in capsys.readouterr().err
