"""The tutorial of the loop, word for word: from serving to the second push."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[2] / "docs/tutorials/loop.md").read_text()
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.mark.slow
def test_ten_commands_lead_to_the_second_push(tmp_path):
    blocks = BLOCK.findall(PAGE)
    commands = [line for kind, body in blocks if kind == "sh" for line in body.splitlines()]
    assert len(commands) == 10
    [script] = [body for kind, body in blocks if kind == "python"]
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    folder, told = tmp_path, ""
    for command in commands:
        if command.startswith("cd "):
            folder = folder / command.removeprefix("cd ")
            (folder / "serve.py").write_text(script)
            continue
        done = subprocess.run(
            command,
            shell=True,
            cwd=folder,
            env={**os.environ, "PATH": path},
            capture_output=True,
            text=True,
        )
        differs = command.startswith("penstock diff ")
        assert done.returncode == (1 if differs else 0), f"{command}\n{done.stdout}{done.stderr}"
        told += done.stdout
    shown = [line for kind, body in blocks if kind == "text" for line in body.splitlines()]
    for line in shown:  # Statistics differ a little between versions of TFDV.
        start = line.partition("...")[0].removesuffix("runs/taxi/serving_model/")
        assert re.sub(r"\d", "0", start) in re.sub(r"\d", "0", told)
    assert len(list((folder / "runs/taxi/serving_model").iterdir())) == 2
    assert told.count("  Pushed\n") == 2
