"""The README's commands and code, as they stand there."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
import readme_data

ROOT = Path(__file__).parents[1]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(language):
    text = (ROOT / "README.md").read_text()
    return [body for kind, body in BLOCK.findall(text) if kind == language]


def commands():
    lines = [line.partition("#")[0].strip() for body in blocks("sh") for line in body.splitlines()]
    return [line for line in lines if line]


@pytest.fixture
def folder(tmp_path, taxi_csv):
    """A user's working directory, with what the README names."""
    readme_data.make(tmp_path, taxi_csv)
    return tmp_path


def environment(folder):
    return {"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin", "HOME": str(folder)}


def run(command, folder):
    return subprocess.run(
        command, cwd=folder, capture_output=True, text=True, env=environment(folder)
    )


def test_the_make_commands_are_targets():
    targets = [line.split()[1] for line in commands() if line.startswith("make ")]
    assert targets == ["run", "test"]
    for target in targets:
        done = subprocess.run(["make", "-n", target], cwd=ROOT, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr


@pytest.mark.ci
def test_every_penstock_command_runs(folder, penstock):
    ours = [line for line in commands() if line.startswith("penstock ")]
    assert len(ours) >= 16
    seen = set()
    for command in ours:
        _, verb, *arguments = command.split()
        if verb in seen:
            done = penstock(verb, *arguments, cwd=folder, env=environment(folder))
        else:  # once as a shell does
            done = run(["penstock", verb, *arguments], folder)
        seen.add(verb)
        assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"


@pytest.mark.ci
def test_the_code_runs(folder, penstock):
    (body,) = blocks("python")
    done = penstock.run_code(body, cwd=folder, env=environment(folder))
    assert done.returncode == 0, done.stderr
    shards = list((folder / "runs/mine").glob("ShardedExampleGen/examples/*/Split-train/*.gz"))
    assert len(shards) == 8


def test_every_linked_file_exists():
    for target in re.findall(r"\]\(([^)#:]+)\)", (ROOT / "README.md").read_text()):
        assert (ROOT / target).exists(), target
