"""`penstock run` with errors, spans and retraining; other tests run all of taxi and digits."""

import json
import re

import pytest


def test_root_that_cannot_be_made_is_one_line(tmp_path, penstock):
    done = penstock("run", "taxi", "--root", "/proc/x", cwd=tmp_path)
    assert done.returncode == 1
    last = done.stderr.splitlines()[-1]
    assert last.startswith("penstock: pipeline 'taxi' cannot be made: /proc/x; ")
    assert "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_only_libraries_are_left_out_of_the_collection_at_exit(tmp_path, penstock):
    """`gc.freeze` runs once, before the first of several spans imports the user's modules."""
    (tmp_path / "own.py").write_text("import sys\ndef create():\n    sys.exit(3)")
    done = penstock.run_code(
        """
        import contextlib, gc, sys
        from penstock.pipelines.cli.run import run

        frozen, freeze = [], gc.freeze
        gc.freeze = lambda: frozen.append("own" in sys.modules)
        for span in range(2):
            with contextlib.suppress(SystemExit):
                run("own:create")
        assert frozen == [False], frozen
        """,
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_spans_run_in_order_stop_at_a_failure_and_go_on(tmp_path, penstock, taxi_csv):
    header, *rows = taxi_csv.read_text().splitlines()

    def write(span, *more):
        file = tmp_path / "data" / str(span) / "trips.csv"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("\n".join([header, *rows[span::8], *more, ""]))

    def run(spans):
        sets = ("data=data/{SPAN}/*.csv", "last_spans=2", "train.max_steps=10", "must_beat=null")
        options = [part for text in sets for part in ("--set", text)]
        return penstock(
            *("run", "taxi", "--spans", spans, "--root", "root", *options, "--quiet"), cwd=tmp_path
        )

    write(1)
    write(2, "1,2")
    stopped = run("1..2")
    assert stopped.returncode == 1
    assert "span 2: node 'ShardedExampleGen' failed: data/2/trips.csv: line" in stopped.stderr
    assert stopped.stderr.endswith("the same command continues with span 2\n")
    write(2)
    done = run("1..2")
    assert done.returncode == 0
    assert done.stderr.startswith("span 1: skipped, finished by run ")
    assert done.stdout.count("ShardedExampleGen = StatisticsGen") == 3  # one line for each split
    train = [len(rows[span::8]) for span in (1, 2)]
    transformed = re.findall(r"StatisticsGen, Transform ([\d,]+\d)", done.stdout)
    assert sum(int(n.replace(",", "")) for n in transformed) == sum(train)
    # A new run of span 1 reads no later span, although span 2 has been ingested.
    again = run("1")
    assert again.returncode == 0
    assert "ShardedExampleGen = StatisticsGen = Transform" in again.stdout


@pytest.mark.slow
def test_run_retrains_only_if_a_limit_is_reached(tmp_path, penstock, taxi_csv):
    header, *rows = taxi_csv.read_text().splitlines()

    def run(span, rows):
        file = tmp_path / "data" / str(span) / "trips.csv"
        file.parent.mkdir(parents=True)
        file.write_text("\n".join([header, *rows, ""]))
        sets = (
            *("data=data/{SPAN}/*.csv", "retrain.new_rows=2000", "must_beat=null"),
            *("train.max_steps=10", "evaluation.max_worsening.BinaryAccuracy=0.9"),
            *("evaluation.thresholds.BinaryAccuracy=0.0", "evaluation.thresholds.AUC=0.0"),
        )
        options = [part for text in sets for part in ("--set", text)]
        done = penstock("run", "taxi", "--root", "root", *options, "--json", cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        summary = json.loads(done.stdout)
        return summary["retraining"], {node["node"] for node in summary["nodes"]}

    first, nodes = run(1, rows[::6])
    assert first == {"is_done": True, "reason": "no model of other data has been blessed yet"}
    assert {"RetrainGate", "Transform", "Pusher"} <= nodes
    second, nodes = run(2, rows[1::12])
    assert second == {"is_done": False, "reason": "1,251 new labelled rows, limit 2,000"}
    assert "RetrainGate" in nodes
    assert {"Transform", "Trainer", "Baseline", "Evaluator", "Pusher"} & nodes == set()
    listed = json.loads(penstock("runs", "list", "root", "--json", cwd=tmp_path).stdout)
    assert [one["outcome"] for one in listed] == ["Not retrained", "Pushed"]
    third, nodes = run(3, rows[2::6])
    assert third == {"is_done": True, "reason": "2,500 new labelled rows, limit 2,000"}
    assert "Pusher" in nodes
