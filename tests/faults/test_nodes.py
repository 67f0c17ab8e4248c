"""A run of the taxi pipeline that is killed and told to stop in each of its nodes, in turn."""

import json
import signal

import pytest

pytestmark = [pytest.mark.faults, pytest.mark.slow]


def outcome(summary, root, tree):
    """What must not depend on interruptions."""
    artifacts = {
        str(folder.relative_to(root)): len(list(folder.iterdir()))
        for folder in sorted((root / "pipeline").glob("*/*"))
        if not folder.name.startswith(".") and folder.is_dir()
    }
    [examples] = (root / "pipeline/ShardedExampleGen/examples").iterdir()
    [version] = (root / "serving_model").iterdir()
    return artifacts, tree(examples), sorted(tree(version)), summary["blessed"]


def test_a_run_that_is_interrupted_at_every_node_comes_to_the_same(
    tmp_path, small_taxi, interrupted, tree
):
    clean, cut = tmp_path / "clean", tmp_path / "cut"
    done = interrupted(*small_taxi(clean, "--json"), watch="nodes")
    assert done.returncode == 0, done.stderr
    whole, places = json.loads(done.stdout), interrupted.places
    assert len(places) == 3 * len(whole["nodes"]) - 2  # a resolver has no executor
    for at, place in enumerate(places):
        node, _, moment = place.partition(" ")
        if moment == "begins" and f"{node} works" in places:
            continue
        how = ("SIGKILL", "SIGTERM")[at % 2]
        ended = interrupted(*small_taxi(cut), watch="nodes", place=place, signal=how)
        if how == "SIGKILL":
            assert ended.returncode == -signal.SIGKILL, (place, ended.stderr)
        else:
            assert ended.returncode == 130, (place, ended.stderr)
            text = f"penstock: interrupted in node '{node}'; run again to go on from there"
            assert text in ended.stderr.splitlines(), (place, ended.stderr)
    done = interrupted(*small_taxi(cut, "--json"), watch="nodes")
    assert done.returncode == 0, done.stderr
    again = json.loads(done.stdout)
    assert outcome(again, cut, tree) == outcome(whole, clean, tree)
    for ours, theirs in zip(again["training"]["epochs"], whole["training"]["epochs"], strict=True):
        assert ours["metrics"] == pytest.approx(theirs["metrics"], rel=1e-5)
    ours, theirs = (summary["evaluation"]["metrics"]["overall"] for summary in (again, whole))
    assert ours == pytest.approx(theirs, rel=1e-4)
