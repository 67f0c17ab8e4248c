"""docs/tutorials/loop.md word for word; the gate of docs/loop.md in a `penstock init` package."""

import json
import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from pages import blocks

TUTORIAL = "docs/tutorials/loop.md"


@pytest.mark.slow
def test_ten_commands_lead_to_the_second_push(tmp_path):
    commands = [line for body in blocks("sh", TUTORIAL) for line in body.splitlines()]
    assert len(commands) == 10
    [script] = blocks("python", TUTORIAL)
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
    shown = [line for body in blocks("text", TUTORIAL) for line in body.splitlines()]
    for line in shown:  # Digits are ignored; they vary by TFDV version.
        start = line.partition("...")[0].removesuffix("runs/taxi/serving_model/")
        assert re.sub(r"\d", "0", start) in re.sub(r"\d", "0", told)
    assert len(list((folder / "runs/taxi/serving_model").iterdir())) == 2
    assert told.count("  Pushed\n") == 2


@pytest.mark.slow
def test_the_gate_in_a_package_of_init_skips_a_training_that_would_not_pay(tmp_path, penstock):
    def run(*arguments, cwd):
        done = penstock(*arguments, cwd=cwd)
        assert done.returncode == 0, done.stderr
        return done.stdout

    run("sample", "try", cwd=tmp_path)
    place = tmp_path / "try"
    run("init", "churn", "--data", "customers.csv", "--target", "churned", cwd=place)
    code, _ = blocks("python", "docs/loop.md")
    imports, gate = code.removesuffix("        ...  # Transform to Pusher\n").split("\n    before")
    file = place / "churn/churn/pipeline.py"
    head, rest = file.read_text().split("    # TransformGraph;")
    under, nodes = rest.split("    nodes = [\n")
    under = textwrap.indent(f"    # TransformGraph;{under}", "    ")
    nodes = f"    nodes = [\n        before,\n        retrain,\n{nodes}"
    file.write_text(f"{imports}\n{head}    before{gate}{under}{nodes}")
    customers = (place / "customers.csv").read_text().splitlines(keepends=True)
    (place / "fewer.csv").write_text("".join(customers[:1200]))
    outcomes = []
    for data in ("customers", "fewer"):
        sets = ("--set", f"data=../{data}.csv", "--set", "retrain.drift=0.3", "--json")
        outcomes.append(json.loads(run("run", *sets, cwd=place / "churn")))
    assert [one["retraining"]["is_done"] for one in outcomes] == [True, False]
    assert [bool(one["pushed"]) for one in outcomes] == [True, False]
