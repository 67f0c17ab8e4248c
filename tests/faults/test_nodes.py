"""Runs of the taxi pipeline that are killed or told to stop inside their nodes and epochs."""

import json
import random
import signal

import pyarrow.parquet as pq
import pytest

pytestmark = pytest.mark.slow

# Each round interrupts a run once at each of these places, at a random instant; all rounds together
# make 33 interruptions. The place `Trainer` also covers the work before and after the epochs.
PLACES = (
    *("ShardedExampleGen", "StatisticsGen", "Transform", "Pack"),
    *("epoch 1", "epoch 2", "epoch 3", "epoch 4"),
    *("Trainer", "Evaluator", "Pusher"),
)
ROUNDS = 3
OPTIONS = (
    "--set", "pack=true", "--set", "train.max_steps=200", "--set", "train.steps_per_epoch=50",
    "--set", "evaluation.thresholds.BinaryAccuracy=0.8", "--set", "evaluation.thresholds.AUC=0.8",
)  # fmt: skip


class Outcome:
    """The outcome of a run; no part of the outcome may depend on interruptions."""

    def __init__(self, root, summary, rows, penstock, tree):
        self.artifacts = {
            str(folder.relative_to(root)): len(list(folder.iterdir()))
            for folder in sorted((root / "pipeline").glob("[!.]*/[!.]*"))
            if not folder.name.startswith(".") and folder.is_dir()
        }
        self.shards = {
            node: [tree(folder) for folder in (root / "pipeline" / node).glob("[!.]*/*")]
            for node in ("ShardedExampleGen", "Pack")
        }
        self.blessed, self.ledger = summary["blessed"], summary["ledger"]
        self.metrics = [epoch["metrics"] for epoch in summary["training"]["epochs"]]
        self.evaluation = summary["evaluation"]["metrics"]["overall"]
        out = root / "predictions.parquet"
        done = penstock("predict", root, rows, "--out", out)
        assert done.returncode == 0, done.stderr
        self.probabilities = pq.read_table(out)["probability"].to_pylist()

    def check_same(self, other):
        for name in ("artifacts", "shards", "blessed", "ledger"):
            assert getattr(self, name) == getattr(other, name), name
        # Sums by TensorFlow's threads differ in their last digits.
        for ours, theirs in zip(self.metrics, other.metrics, strict=True):
            assert ours == pytest.approx(theirs, rel=1e-5)
        assert self.evaluation == pytest.approx(other.evaluation, rel=1e-5)
        assert self.probabilities == pytest.approx(other.probabilities, abs=1e-5)


@pytest.fixture(scope="module")
def whole(tmp_path_factory, small_taxi, penstock, tree, taxi_csv):
    """An uninterrupted run: its outcome, seconds by node and epoch, and rows to predict."""
    folder = tmp_path_factory.mktemp("whole")
    rows = folder / "rows.csv"
    rows.write_text("".join(taxi_csv.read_text().splitlines(keepends=True)[:301]))
    done = penstock(*small_taxi(folder / "root", *OPTIONS, "--json"))
    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout)
    seconds = {node["node"]: node["seconds"] for node in summary["nodes"]}
    for epoch in summary["training"]["epochs"]:
        seconds[f"epoch {epoch['epoch']}"] = epoch["seconds"]
    assert {*PLACES} <= {*seconds}
    return Outcome(folder / "root", summary, rows, penstock, tree), seconds, rows


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("seed", range(ROUNDS))
def test_a_run_interrupted_inside_its_nodes_ends_as_an_uninterrupted_one(
    tmp_path, whole, small_taxi, interrupted, penstock, tree, seed
):
    outcome, seconds, rows = whole
    chance = random.Random(seed)
    command = small_taxi(tmp_path / "root", *OPTIONS)
    for place in PLACES:
        how = chance.choice(("SIGKILL", "SIGTERM"))
        after = chance.uniform(0, seconds[place])
        ended = interrupted(*command, watch="nodes", place=place, after=after, signal=how)
        if how == "SIGKILL":
            assert ended.returncode == -signal.SIGKILL, (place, after, ended.stderr)
        else:
            assert ended.returncode == 130, (place, after, ended.stderr)
            [*_, last] = [line for line in ended.stderr.splitlines() if "penstock:" in line]
            assert last.startswith("penstock: interrupted"), (place, after, ended.stderr)
        assert place in interrupted.places
    done = penstock(*command, "--json")
    assert done.returncode == 0, done.stderr
    Outcome(tmp_path / "root", json.loads(done.stdout), rows, penstock, tree).check_same(outcome)
