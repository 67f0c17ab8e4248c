from dataclasses import dataclass

import typer
from typer.testing import CliRunner

from penstock.pipelines.cli.option_docs import field_docs
from penstock.pipelines.cli.option_flags import given, with_flags


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


def test_docs_are_the_docstrings():
    assert field_docs(Options) == {
        "kind": "Not a flag.",
        "schema_file": "Path of schema.pbtxt that decides.",
        "max_rows": "Rows at most.",
        "null_tokens": 'Texts that mean "no value".',
        "strict": "Whether to stop.",
    }


def test_only_what_is_given_is_passed_on():
    assert run("a")[0] == {"path": "a"}


def test_each_field_is_a_flag():
    got, _ = run("a", "--schema", "s", "--max-rows", "7", "--null-token", "x",
                 "--null-token", "y", "--strict")  # fmt: skip
    assert got == {
        "path": "a", "schema_file": "s", "max_rows": 7, "null_tokens": ("x", "y"), "strict": True,
    }  # fmt: skip


def test_help_has_texts_and_defaults():
    _, result = run("--help")
    text = " ".join(result.output.replace("│", " ").split())
    assert "Options of it" in text
    assert "Rows at most. (default: 5)" in text
    assert "--kind" not in text
