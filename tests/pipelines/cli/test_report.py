import json

import pytest

from penstock.components.errors import DataError, UsageError
from tests.pipelines.cli.conftest import call


@pytest.fixture
def two(runs, tmp_path):
    """A folder with the metadata of a run that succeeded and of a later run that failed."""
    runs.write_statistics(tmp_path / "statistics", "train", 10, [("x", 0, 0.0, 2.0, [10, 0])])
    found = [runs.artifact("ExampleStatistics", tmp_path / "statistics")]
    runs.node("run-1", "StatisticsGen", "done", (), found, exclude_splits="[]", limit=1)
    runs.node("run-2", "StatisticsGen", "cached", (), found, exclude_splits="[]", limit=2)
    runs.node("run-2", "Trainer", "failed", found)
    return tmp_path


def test_the_newest_run_of_a_folder(two):
    done = call("report", two)
    assert done.exit_code == 0, done.exception
    assert done.stdout == f"{two}/report.html\n"
    page = (two / "report.html").read_text()
    assert "<title>hand: failed (run-2)</title>" in page


def test_a_run_by_the_beginning_of_its_id(two):
    assert call("report", "run-1", "--root", two, "--out", two / "a/b.html").exit_code == 0
    assert "<title>hand: done (run-1)</title>" in (two / "a/b.html").read_text()
    assert sorted(path.name for path in (two / "a").iterdir()) == ["b.html"]

    done = call("report", "run", "--root", two)
    assert isinstance(done.exception, UsageError)
    assert str(done.exception) == "run 'run' may be run-2, run-1; write more of its id"


def test_a_page_that_the_user_names_is_kept_and_that_beside_the_metadata_made_anew(two):
    page = two / "mine.html"
    page.write_text("mine")
    done = call("report", two, "--out", page)
    assert isinstance(done.exception, UsageError)
    assert page.read_text() == "mine"
    assert call("report", two, "--out", page, "--overwrite").exit_code == 0
    assert "<title>hand: failed" in page.read_text()
    for _ in range(2):
        assert call("report", two).exit_code == 0


def test_several_runs(two, runs):
    runs.node("run-3", "StatisticsGen", "done", (), (), exclude_splits="[]", limit=2)
    done = call("report", "run-1", "run-2", "run-3", "--root", two)
    assert done.stdout == f"{two}/comparison.html\n"
    page = (two / "comparison.html").read_text()
    assert '<th scope="col">Run 1</th><th scope="col">Run 2</th><th scope="col">Run 3</th>' in page
    values = "".join(f'<td class="text mono">{limit}</td>' for limit in (1, 2, 2))
    assert f'<td class="text">limit</td>{values}</tr>' in page


@pytest.mark.parametrize(
    ("arguments", "kind", "words"),
    [
        (("run-1",) * 5, UsageError, "at most 4 runs fit beside each other, got 5"),
        (("nope", "--root", "{two}"), UsageError, "no run 'nope'; the newest known: run-2, run-1"),
        (("{two}/nope",), UsageError, "{two}/nope: no such folder or file;"),
        (
            ("nope", "--root", "{two}/statistics"),
            DataError,
            "'nope': {two}/statistics: no metadata",
        ),
        (("nope", "--root", "{two}/none"), DataError, "run 'nope': {two}/none: No such file"),
        (("{two}/statistics",), DataError, "{two}/statistics: no metadata of runs"),
        (("{two}", "--out", "{two}/metadata.sqlite/a"), UsageError, "sqlite: is a file; name anot"),
    ],
)
def test_what_cannot_be_reported_is_one_line(two, arguments, kind, words):
    done = call("report", *(a.format(two=two) for a in arguments))
    assert isinstance(done.exception, kind)
    assert words.format(two=two) in str(done.exception)


def test_metadata_without_a_run(runs, tmp_path):
    assert str(call("report", tmp_path).exception) == (
        f"{tmp_path}/metadata.sqlite: there is no run in there yet"
    )


def test_metadata_of_a_name_of_its_own(two):
    (two / "metadata.sqlite").rename(two / "mine.sqlite")
    assert call("report", "--root", two).stdout == f"{two}/hand-report.html\n"
    assert call("runs", "list", two).stdout.startswith("2 runs\n")


def test_the_list_of_runs(two):
    lines = call("runs", "list", two).stdout.splitlines()
    assert [line.split()[0] for line in lines[2:]] == ["run-2", "run-1"]
    assert lines[2].split()[-4:] == ["1/2", "0", "B", "Failed"]
    found = json.loads(call("runs", "list", two, "--json").stdout)
    assert [(run["run_id"], run["outcome"], run["nodes"]) for run in found] == [
        ("run-2", "Failed", 2),
        ("run-1", "Done", 1),
    ]
