import pytest
import typer

from penstock.components.errors import UsageError
from penstock.pipelines.cli.main import app, wrong_use


def told(*words):
    """What is told of a command with these words, the error's own text where it is ours."""
    with pytest.raises(Exception) as caught:  # noqa: PT011  # typer's, whose home moves
        typer.main.get_command(app).main([*words], prog_name="penstock", standalone_mode=False)
    text = wrong_use(caught.value)
    return text if text is not None or not isinstance(caught.value, UsageError) else caught.value


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ("ingets a b", "no such command 'ingets'; did you mean 'ingest'?"),
        ("runs lst", "runs: no such command 'lst'; did you mean 'list'?"),
        ("nothing-like-it", "no such command 'nothing-like-it'; see penstock --help"),
        ("ingest a b --shrads 3", "ingest: no such option --shrads; did you mean --shards?"),
        ("report -x", "report: no such option -x; see penstock report --help"),
        ("predict m", "predict: missing DATA; see penstock predict --help"),
        ("init x", "init: missing option '--data'; see penstock init --help"),
        ("pack a b --seed x",
         "pack: --seed: expected a whole number, got 'x'; see penstock pack --help"),
        ("runs prune --keep 0",
         "runs prune: --keep: expected at least 1, got '0'; see penstock runs prune --help"),
        ("run --set", "option '--set' requires an argument"),
    ],
)  # fmt: skip
def test_wrong_use_is_one_line(words, text):
    assert told(*words.split()) == text


def test_where_the_help_is_printed_nothing_more_is_said(capsys):
    assert told("runs") == ""
    assert "prune" in capsys.readouterr().out


def test_other_errors_are_none_of_it():
    assert wrong_use(ValueError("no")) is None


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ("ingest a b --label-column x", "--label-column goes with --kind images"),
        ("ingest a b --non-finite", "option '--non-finite' requires an argument"),
        ("ingest a b --kind imagse", "--kind must be one of csv, parquet, "),
    ],
)
def test_kinds_and_their_flags(words, text):
    assert str(told(*words.split())).startswith(text)
