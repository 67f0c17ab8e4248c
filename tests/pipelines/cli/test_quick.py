"""Commands that answer at once: they end without importing the libraries that take seconds."""

import subprocess
import sys

import pytest
import typer
from row_files import example, write_shards

from penstock.pipelines.cli.main import app

_HEAVY = ("tensorflow", "tfx", "tensorflow_model_analysis", "apache_beam", "keras", "kfp")
# Each command runs in a fork of a process that has imported the command line's module, and light
# libraries that each fork would otherwise import.
_SCRIPT = f"""
import io, os, shlex, sys
import numpy, pyarrow.parquet, pydantic.main, google_crc32c, yaml
import rich.markdown, rich.progress, rich.syntax, typer.rich_utils
from contextlib import redirect_stderr, redirect_stdout
from penstock.pipelines.cli.main import main

for line in sys.stdin:
    if os.fork():
        os.wait()
        continue
    sys.argv = ["penstock", *shlex.split(line)]
    said = io.StringIO()
    try:
        with redirect_stdout(io.StringIO()), redirect_stderr(said):
            main()
    except SystemExit as end:
        heavy = [name for name in {_HEAVY} if sys.modules.get(name)]
        print(end.code, heavy, said.getvalue().strip() or "-", sep="; ", flush=True)
    os._exit(0)
"""


@pytest.fixture
def answers(tmp_path, runs):
    """Runs commands in a folder with a table, an empty folder, shards and a store with a run."""
    (tmp_path / "table.csv").write_text("a,b\n1,2\n3,4\n")
    (tmp_path / "folder").mkdir()
    runs.node("run-1", "Trainer", outputs=[runs.artifact("Model", tmp_path / "folder")])
    write_shards(tmp_path / "shards", [example(a=[1])], shards=1)

    def run(*commands):
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", _SCRIPT],
            input="\n".join(commands),
            capture_output=True,
            text=True,
            cwd=tmp_path,
            check=True,
        )
        return done.stdout.splitlines()

    return run


def every_command(group, words=""):
    """Full names of all commands, including hidden ones."""
    yield words
    for name, command in getattr(group, "commands", {}).items():
        yield from every_command(command, f"{words} {name}".strip())


# Commands with their exit code and a part of their error output (`-` if there is none).
ANSWERS = {
    "bogus": (2, "penstock: No such command 'bogus'"),
    "ingets a b": (2, "Did you mean 'ingest'"),
    "ingest a b --shrads 3": (2, "No such option: --shrads"),
    "predict m": (2, "Missing argument"),
    "pack a b --seed x": (2, "'--seed'"),
    "ingest a b --kind imagse": (2, "--kind must be one of csv, parquet, "),
    "runs": (2, "-"),  # prints its help
    "runs list": (1, "name the folder of a run"),
    "runs list .": (0, "-"),
    "inspect shards": (0, "-"),
    "verify shards": (0, "-"),
    "inspect nowhere": (1, "no such file"),
    "ingest nowhere out": (1, "no such file"),
    "pack nowhere out": (1, "no such folder"),
    "export nowhere out --to parquet": (1, "no such folder"),
    "init new --data nowhere --target a": (2, "no such file"),
    "init new --data table.csv --target c": (2, "'c'"),
    "run nowhere": (2, "no pipeline 'nowhere'"),
    "run nowhere:create": (2, "no module 'nowhere'"),
    "run taxi --set trian.max_steps=3": (2, "did you mean 'train'?"),
    "run digits --set train.max_step=3": (2, "did you mean 'max_steps'?"),
    "run taxi --set data=nowhere": (1, "nowhere: no such file"),
    "run taxi --config nowhere": (2, "nowhere: no such file"),
    "compile taxi --image a:b --out c.yaml": (2, "by digest"),
    "predict folder table.csv": (1, "no model"),
    "predict folder table.csv --source delimitre=x": (2, "did you mean 'delimiter'"),
    "report nowhere --root folder": (1, "nowhere"),
}


def test_help_imports_nothing_heavy(answers):
    commands = [*every_command(typer.main.get_command(app)), "ingest --kind images"]
    assert len(commands) > 20
    given = answers(*(f"{command} --help" for command in commands))
    assert dict(zip(commands, given, strict=True)) == dict.fromkeys(commands, "0; []; -")


def test_short_answers_and_wrong_words_import_nothing_heavy(answers):
    given = answers(*ANSWERS)
    for command, (code, word), answer in zip(ANSWERS, ANSWERS.values(), given, strict=True):
        assert answer.startswith(f"{code}; []; "), (command, answer)
        assert word in answer, (command, answer)
