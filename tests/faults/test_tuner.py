"""A search of the taxi pipeline that is killed within a trial continues in that trial."""

import json
import signal

import pytest

pytestmark = pytest.mark.slow


def found(root):
    [results] = root.glob("pipeline/Tuner/tuner_results/*/tuner_results.json")
    [best] = root.glob("pipeline/Tuner/best_hyperparameters/*/*")
    return json.loads(results.read_text()), json.loads(best.read_text())["values"]


def epochs_of(node, places):
    """The epochs that a node began."""
    rest = places[places.index(node) + 1 :]
    nodes = [i for i, place in enumerate(rest) if not place.startswith("epoch")]
    return rest[: nodes[0] if nodes else None]


def test_a_killed_search_goes_on_with_the_trial_that_it_was_in(tmp_path, interrupted, small_taxi):
    def run(root, trials=3, **more):
        options = ("--set", f"tune.trials={trials}")
        return interrupted(*small_taxi(tmp_path / root, *options), watch="nodes", **more)

    assert run("whole").returncode == 0
    places = interrupted.places
    assert epochs_of("Tuner", places) == ["epoch 1", "epoch 2"] * 3
    last_of_trial_1 = places.index("Tuner") + 1 + 4

    killed = run("killed", place=last_of_trial_1, signal="SIGKILL")
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    done = run("killed")
    assert done.returncode == 0, done.stderr
    assert epochs_of("Tuner", interrupted.places) == ["epoch 2", "epoch 1", "epoch 2"]
    results, best = found(tmp_path / "killed")
    expected, expected_best = found(tmp_path / "whole")
    assert [one.pop("score") for one in results] == pytest.approx(
        [one.pop("score") for one in expected], rel=1e-6
    )
    assert (results, best) == (expected, expected_best)
    assert "\ntrials      3 trials, best val_loss " in done.stdout

    assert run("killed", trials=4).returncode == 0
    assert epochs_of("Tuner", interrupted.places) == ["epoch 1", "epoch 2"]
