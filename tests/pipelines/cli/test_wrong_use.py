import pytest


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ("ingets a b", "No such command 'ingets'. Did you mean 'ingest'"),
        ("ingest a b --shrads 3", "No such option: --shrads"),
        ("predict m", "Missing argument"),
        ("pack a b --seed x", "'--seed'"),
        ("ingest a b --kind imagse", "--kind must be one of csv, parquet, "),
    ],
)
def test_wrong_use_is_one_line_and_2(penstock, words, text):
    done = penstock(*words.split())
    [line] = done.stderr.splitlines()
    assert (done.returncode, done.stdout) == (2, "")
    assert line.startswith("penstock: ")
    assert text in line


def test_where_the_help_is_printed_nothing_more_is_said(penstock):
    done = penstock("runs")
    assert done.returncode == 2
    assert "prune" in done.stdout
    assert done.stderr == ""
