"""Each option or flag that a text in the code names exists in the command that may print it."""

import ast
import re
from pathlib import Path

import pytest
import typer

from penstock.components.packing.options import PackOptions
from penstock.components.sources.kinds import KINDS, options_type
from penstock.components.sources.options import Table
from penstock.pipelines.cli import ingest
from penstock.pipelines.cli.init import INIT_FLAGS
from penstock.pipelines.cli.main import app
from penstock.pipelines.cli.option_flags import flag_names, source_flags

ROOT = Path(__file__).parents[3]
OPTION = re.compile(r"`([a-z]\w+)(?:=[^`]+)?`")
FLAG = re.compile(r"(?<![\w-])--[a-z][a-z-]+(?![\w-])")
# Flags of other programs.
OTHERS = {"--glob", "--long", "--user", "--from-literal", "--audience", "--logdir"}
# Files with error texts of functions and nodes that have no command.
_IN_PYTHON = {"components/example_gen/spark_writer.py"}
# Modules of `sources` with texts about kinds of data that `init` does not read.
_NOT_OF_INIT = (
    "served/",
    "sql/",
    "tfrecords/",
    "delta",
    "iceberg",
    "lake",
    "bigquery",
    "plain_text",
)


def sentences(*folders):
    """(file, text) of each string with a blank, except docstrings, in the code of the folders."""
    for folder in folders:
        for file in sorted((ROOT / folder).rglob("*.py")):
            tree = ast.parse(file.read_text())
            skipped = {id(n.value) for n in ast.walk(tree) if isinstance(n, ast.Expr)}
            for node in ast.walk(tree):
                if isinstance(node, ast.JoinedStr):
                    parts = [p.value if isinstance(p, ast.Constant) else "0" for p in node.values]
                    skipped |= {id(part) for part in node.values}
                    text = "".join(parts)
                elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                    text = node.value if id(node) not in skipped else ""
                else:
                    continue
                if " " in text.strip():
                    yield str(file.relative_to(ROOT)), text


def ingest_flags():
    kinds = [*map(options_type, KINDS), options_type(None), PackOptions, *ingest._ON_EVERY_KIND]
    return {name: flag for kind in kinds for name, flag in flag_names(kind).items()}


def command_flags(command):
    for one in command.params:
        yield from (*one.opts, *one.secondary_opts)
    for below in getattr(command, "commands", {}).values():
        yield from command_flags(below)


def test_flags_in_texts_are_flags_of_a_command():
    flags = {"--help", *ingest_flags().values(), *command_flags(typer.main.get_command(app))}
    named = [
        (file, flag)
        for file, text in sentences("components", "pipelines", "penstock")
        for flag in FLAG.findall(text)
        if not text.startswith(("FROM ", "--"))
    ]
    assert len(named) > 40
    assert [(file, flag) for file, flag in named if flag not in flags | OTHERS] == []


_INGEST = [f"components/{name}" for name in ("sources", "example_gen", "packing", "engine")]
_INIT = ["components/sources", "pipelines/starter"]
_NOT_OF_PREDICT = (*_NOT_OF_INIT, "images", "whole_files", "labels", "starter")


@pytest.mark.parametrize(
    ("folders", "others", "flags"),
    [
        (_INGEST, (), {**ingest_flags(), **ingest._OWN_FLAGS}),
        (_INIT, _NOT_OF_INIT, INIT_FLAGS),
        (_INIT, _NOT_OF_PREDICT, source_flags(Table)),
    ],
    ids=["ingest", "init", "predict"],
)
def test_options_in_texts_that_a_command_may_print_are_flags_of_it(folders, others, flags):
    named = [
        (file, option)
        for file, text in sentences(*folders)
        for option in OPTION.findall(text)
        if file not in _IN_PYTHON and not any(one in file for one in others)
    ]
    assert len(named) > 10
    assert [(file, option) for file, option in named if option not in flags] == []


def test_no_text_installs_the_foreign_package_penstock():
    # `penstock` on the package index is another project; ours is `penstock-tfx`.
    foreign = re.compile(r"""(?:install ['"\\]*penstock(?![\w/ -])|\bpenstock\[[a-z{%])""")
    folders = ("components", "pipelines", "penstock", "benchmarks", "docs", "k8s", "schemas")
    inside = (file for folder in folders for file in (ROOT / folder).rglob("*") if file.is_file())
    files = [*inside, ROOT / "README.md", ROOT / "pyproject.toml", ROOT / "Makefile"]
    kinds = {".py", ".pyi", ".j2", ".md", ".ipynb", ".toml", ".yaml", ".html", ".sh", ".Dockerfile"}
    texts = [file for file in files if file.suffix in kinds or not file.suffix]
    assert len(texts) > 300
    found = [str(file.relative_to(ROOT)) for file in texts if foreign.search(file.read_text())]
    assert found == []
