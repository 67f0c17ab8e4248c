"""The pipelines of docs/tfx.md: TFX's own examples with Penstock's nodes, word for word."""

import csv
import json
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest
from pages import blocks

from penstock.components.tfrecord.manifest import MANIFEST_NAME


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A working directory with the page's code, with short trainings and penguin data."""
    folder = tmp_path_factory.mktemp("tfx")
    (code,) = blocks("python", "docs/tfx.md")
    (folder / "examples.py").write_text(code.replace("num_steps=100", "num_steps=20"))
    (folder / "penguin_data").mkdir()
    draw = random.Random(1)
    means = ((0.2, 0.6, 0.3, 0.3), (0.6, 0.6, 0.4, 0.3), (0.5, 0.2, 0.7, 0.7))  # one per species
    with (folder / "penguin_data/penguins.csv").open("w", newline="") as file:
        out = csv.writer(file)
        out.writerow(
            ["species", "culmen_length_mm", "culmen_depth_mm", "flipper_length_mm", "body_mass_g"]
        )
        for i in range(300):
            out.writerow([i % 3, *(round(draw.gauss(mean, 0.05), 4) for mean in means[i % 3])])
    return folder


# Both pipelines run in one process, because imports and TensorFlow's conversion of the functions of
# Keras 2 take most of the time of either pipeline.
RUN = """
import os, sys, traceback
from penstock.pipelines.cli.main import main
for name in sys.argv[1:]:
    sys.argv = ["penstock", "run", f"examples:{name}", "--json"]
    os.dup2(os.open(f"{name}.json", os.O_WRONLY | os.O_CREAT), 1)
    try:
        main()
    except SystemExit as end:
        print(name, "ended with", end.code, file=sys.stderr)
    except Exception:
        traceback.print_exc()
"""


@pytest.fixture(scope="module")
def stderr(folder):
    """The stderr of a process that ran both pipelines."""
    done = subprocess.run(
        [sys.executable, "-c", RUN, "penguin", "taxi"],
        cwd=folder,
        capture_output=True,
        text=True,
        # TFX's modules are written for Keras 2. The wheel that TFX builds from such a module needs
        # no other package, so pip need not check whether the hundreds of installed packages fit
        # each other.
        env={**os.environ, "TF_USE_LEGACY_KERAS": "1", "PIP_NO_DEPS": "1"},
        check=True,
    )
    return done.stderr


@pytest.mark.slow
@pytest.mark.parametrize(("name", "rows"), [("penguin", 300), ("taxi", 15_002)])
def test_each_node_of_the_page_gives_what_the_page_says(folder, stderr, name, rows):
    assert f"{name} ended with 0" in stderr
    summary = json.loads((folder / f"{name}.json").read_text())
    states = {node["node"]: node["state"] for node in summary["nodes"]}
    assert set(states.values()) == {"done"}

    pipeline = folder / f"runs/{name}/pipeline"
    manifests = [
        json.loads(next(pipeline.glob(f"{node}/{MANIFEST_NAME}")).read_text())
        for node in ("ShardedExampleGen/examples/*", "BatchTransform/transformed_examples/*")
    ]
    assert [manifest["account"]["read"] for manifest in manifests] == [rows, rows]
    # Statistics and transformed rows cover all rows, and the model of TFX's Trainer is pushed.
    counts = {entry["node"]: entry["rows"] for entry in summary["ledger"]}
    assert counts["BatchStatisticsGen"] == counts["BatchTransform"] == counts["ShardedExampleGen"]
    assert summary["blessed"] is True
    assert Path(folder / summary["pushed"], "saved_model.pb").exists()


@pytest.mark.slow
def test_the_tuner_fn_of_the_penguins_runs_with_our_nodes(folder, penstock):
    code = (folder / "examples.py").read_text().replace("tuned: bool = False", "tuned: bool = True")
    (folder / "tuned.py").write_text(code.replace("runs/penguin", "runs/tuned"))
    done = penstock("run", "tuned:penguin", "--json", cwd=folder)
    assert done.returncode == 0, done.stderr
    trials = json.loads(done.stdout)["trials"]
    scores = [row["score"] for row in trials["rows"]]
    assert (trials["objective"], len(scores)) == ("score", 6)
    assert scores == sorted(scores, reverse=True)  # by accuracy, the best first
