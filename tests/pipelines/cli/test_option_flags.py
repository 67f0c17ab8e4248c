import inspect
import re
from dataclasses import dataclass

import pytest
import typer
from typer.testing import CliRunner

from penstock.components.engine.options import EngineOptions
from penstock.components.example_gen.options import IngestOptions
from penstock.components.sources.kinds import options_type
from penstock.components.sources.options import Table
from penstock.components.tfrecord.sharding import ShardOptions
from penstock.pipelines.cli import ingest
from penstock.pipelines.cli.option_flags import (
    flag_names,
    given,
    in_flags,
    with_flags,
)


@dataclass(frozen=True)
class Base:
    """A base.

    Attributes:
        kind: Not a flag.
        schema_file: Path of `schema.pbtxt`
            that decides.
    """

    kind: str | None = None
    schema_file: str | None = None


@dataclass(frozen=True)
class Options(Base):
    """Some options.

    Attributes:
        max_rows: Rows at most.
        null_tokens: Texts that mean "no value".
        strict: Whether to stop.

    Raises:
        ValueError: Not an attribute.
    """

    max_rows: int = 5
    null_tokens: tuple[str, ...] = ("", "NA")
    strict: bool = False


def run(*arguments):
    got = {}

    def command(path: str, **options: object) -> None:
        """Do it."""
        got.update(given(options), path=path)

    app = typer.Typer()
    app.command()(with_flags(command, Options, panel="Options of it"))
    result = CliRunner().invoke(app, list(arguments))
    return got, result


def test_each_field_has_a_flag_with_its_docs_and_default():
    assert run("a")[0] == {"path": "a"}
    got, _ = run("a", "--schema", "s", "--max-rows", "7", "--null-token", "x",
                 "--null-token", "y", "--strict")  # fmt: skip
    assert got == {
        "path": "a", "schema_file": "s", "max_rows": 7, "null_tokens": ("x", "y"), "strict": True,
    }  # fmt: skip
    _, result = run("--help")
    text = " ".join(result.output.replace("│", " ").split())
    assert "Options of it" in text
    assert "Path of schema.pbtxt that decides." in text
    assert "Rows at most. (default: 5)" in text
    assert "--kind" not in text
    assert "Not an attribute" not in text


FLAGS = flag_names(options_type("jsonl")) | {"delimiter": "--delimiter", "kind": "--kind"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a.csv: is empty; set `allow_empty`", "a.csv: is empty; set --allow-empty"),
        ("did you mean `delimiter=';'`?", "did you mean --delimiter ';'?"),
        (r"did you mean `delimiter='\t'`?", "did you mean --delimiter tab?"),
        ("read it with `kind='binary'`", "read it with --kind binary"),
        ("set `allow_empty=False`", "set --no-allow-empty"),
        ("`extra_columns` must be one of reject", "--extra-columns must be one of reject"),
        # The user's own texts are not changed.
        ("/in/allow_empty/a.csv: bad", "/in/allow_empty/a.csv: bad"),
        ("column 'allow_empty' is odd", "column 'allow_empty' is odd"),
        ("`no_such_option` stays", "`no_such_option` stays"),
    ],
)
def test_in_flags_replaces_options_by_flags(text, expected):
    assert in_flags(text, FLAGS) == expected


@pytest.mark.parametrize("kind", [IngestOptions, ShardOptions, EngineOptions, Table])
def test_every_option_of_an_ingest_is_a_flag(kind):
    annotations = [one.annotation for one in inspect.signature(ingest.command).parameters.values()]
    options = [one.__metadata__[0] for one in annotations if hasattr(one, "__metadata__")]
    flags = {str(one.default).partition("/")[0] for one in options}  # default: `--a/--no-a`
    assert set(flag_names(kind).values()) <= flags


@pytest.mark.parametrize(("command", "hidden"), [("ingest", "--null-token"), ("pack", "--runner")])
def test_help_shows_the_usual_options_and_help_all_the_rest(penstock, command, hidden):
    usual, every = (penstock(command, flag).stdout for flag in ("--help", "--help-all"))
    assert "--shards" in usual
    assert hidden not in usual
    assert hidden in every
    assert not re.search(r"\bNone\b(?!')", every)
