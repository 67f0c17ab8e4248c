"""A run of the taxi pipeline that is killed and told to stop in each of its nodes, in turn."""

import json
import signal

import pytest

pytestmark = [pytest.mark.faults, pytest.mark.slow]

OPTIONS = ("train.max_steps=40", "train.steps_per_epoch=20", "evaluation.min_accuracy=0",
           "evaluation.min_auc=0", "must_beat_baseline=false")  # fmt: skip


@pytest.fixture(scope="module")
def trips(tmp_path_factory, taxi_csv):
    folder = tmp_path_factory.mktemp("trips")
    lines = taxi_csv.read_text().splitlines(keepends=True)
    (folder / "trips.csv").write_text("".join(lines[:3001]))
    return folder


def command(root, trips, *more):
    sets = [part for text in (f"data={trips}", *OPTIONS) for part in ("--set", text)]
    return ("run", "taxi", "--root", root, *sets, *more)


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
    tmp_path, trips, interrupted, tree
):
    clean, cut = tmp_path / "clean", tmp_path / "cut"
    done = interrupted(*command(clean, trips, "--json"), watch="nodes")
    assert done.returncode == 0, done.stderr
    whole, places = json.loads(done.stdout), interrupted.places
    assert len(places) == 3 * len(whole["nodes"]) - 2  # a resolver has no executor
    for at, place in enumerate(places):
        node, _, moment = place.partition(" ")
        if moment == "begins" and f"{node} works" in places:
            continue
        how = ("SIGKILL", "SIGTERM")[at % 2]
        ended = interrupted(*command(cut, trips), watch="nodes", place=place, signal=how)
        if how == "SIGKILL":
            assert ended.returncode == -signal.SIGKILL, (place, ended.stderr)
        else:
            assert ended.returncode == 130, (place, ended.stderr)
            text = f"penstock: interrupted in node '{node}'; run again to go on from there"
            assert text in ended.stderr.splitlines(), (place, ended.stderr)
    done = interrupted(*command(cut, trips, "--json"), watch="nodes")
    assert done.returncode == 0, done.stderr
    again = json.loads(done.stdout)
    assert outcome(again, cut, tree) == outcome(whole, clean, tree)
    for ours, theirs in zip(again["training"]["epochs"], whole["training"]["epochs"], strict=True):
        assert ours["metrics"] == pytest.approx(theirs["metrics"], rel=1e-5)
    ours, theirs = (summary["evaluation"]["metrics"]["overall"] for summary in (again, whole))
    assert ours == pytest.approx(theirs, rel=1e-4)
