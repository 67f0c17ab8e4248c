"""The README's commands and code, word for word."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from pages import ROOT, blocks

from penstock.pipelines.starter.sample import write_sample


def commands():
    """The commands of `sh` blocks, each with the folder to which its block has changed."""
    found = []
    for body in blocks("sh"):
        folder = "."
        for line in body.splitlines():
            command = line.partition("#")[0].strip()
            if command.startswith("cd "):
                folder = f"{folder}/{command.removeprefix('cd ')}"
            elif command:
                found.append((command, folder))
    return found


@pytest.fixture
def folder(tmp_path):
    """A user's working directory."""
    return tmp_path


def environment(folder):
    return {"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin", "HOME": str(folder)}


def run(command, folder):
    return subprocess.run(
        command, cwd=folder, capture_output=True, text=True, env=environment(folder)
    )


def test_the_make_commands_are_targets():
    targets = [line.split()[1] for line, _ in commands() if line.startswith("make ")]
    assert targets == ["run", "test"]
    for target in targets:
        done = subprocess.run(["make", "-n", target], cwd=ROOT, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_every_penstock_command_runs(folder, penstock):
    ours = [(line, place) for line, place in commands() if line.startswith("penstock ")]
    assert len(ours) >= 11
    seen = set()
    for command, place in ours:
        _, verb, *arguments = command.split()
        if verb in seen:
            done = penstock(verb, *arguments, cwd=folder / place, env=environment(folder))
        else:  # the first use of a command: in a new process, as in a shell
            done = run(["penstock", verb, *arguments], folder / place)
        seen.add(verb)
        assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"


@pytest.mark.slow
def test_the_code_runs(folder, penstock):
    (body,) = blocks("python")
    write_sample(folder / "try")
    folder = folder / "try"
    done = penstock.run_code(body, cwd=folder, env=environment(folder))
    assert done.returncode == 0, done.stderr
    shards = list((folder / "runs/mine").glob("ShardedExampleGen/examples/*/Split-train/*.gz"))
    assert len(shards) == 1


@pytest.mark.slow
def test_the_code_of_the_tutorial_runs(folder, penstock):
    (body,) = blocks("python", "docs/tutorials/one_component.md")
    write_sample(folder)
    done = penstock.run_code(body, cwd=folder, env=environment(folder))
    assert done.returncode == 0, done.stderr
    assert list((folder / "runs/one").glob("SchemaGen/schema/*/schema.pbtxt"))


def test_the_tutorial_has_the_commands_of_the_readme():
    (commands_of_tutorial,) = blocks("sh", "docs/tutorials/own_data.md")
    assert commands_of_tutorial in blocks("sh")


def test_every_linked_file_exists():
    for target in re.findall(r"\]\(([^)#:]+)\)", (ROOT / "README.md").read_text()):
        assert (ROOT / target).exists(), target
