import json

import pytest
from row_files import example, write_shards


@pytest.fixture
def two(tmp_path):
    (tmp_path / "a.csv").write_text("pay,fare\n" + "cash,1\ncard,2\n" * 50)
    (tmp_path / "b.csv").write_text("pay,fare\n" + "cash,1\napp,2\n" * 50)
    return tmp_path


def test_table_and_exit_code_1_for_different_data(penstock, two):
    done = penstock("diff", "a.csv", "b.csv", cwd=two)
    assert done.returncode == 1
    assert done.stdout.splitlines() == [
        "A a.csv: 100 rows",
        "B b.csv: 100 rows",
        "  column  distance  type          missing  new in B",
        "  pay     0.50 !    text          0.0%     app",
        "  fare    0.00      whole number  0.0%",
    ]
    assert done.stderr == (
        "penstock: b.csv: 1 of 2 columns further than 0.2 from a.csv: pay 0.50\n"
    )


def test_exit_code_0_within_the_limit_and_json(penstock, two):
    done = penstock("diff", "a.csv", "b.csv", "--limit", "0.5", "--json", cwd=two)
    assert (done.returncode, done.stderr) == (0, "")
    found = json.loads(done.stdout)
    assert (found["rows"], found["different"], found["limit"]) == ([100, 100], 0, 0.5)
    assert found["columns"][0] == {
        "column": "pay",
        "kinds": ["text", "text"],
        "missing": [0.0, 0.0],
        "distance": 0.5,
        "new": ["app"],
    }


def test_a_run_stands_for_the_rows_that_it_read(runs, tmp_path):
    from penstock import DataError, diff

    write_shards(tmp_path / "shards", [example(a=[1]), example(a=[2])], shards=1)
    runs.node("run-1", "ExampleGen", outputs=[runs.artifact("Examples", tmp_path / "shards")])
    for run in (runs.folder, "run-1"):
        found = diff(run, tmp_path / "shards", root=str(runs.folder))
        assert (found.rows, found.columns[0].distance) == ((2, 2), 0.0)
    runs.node("run-2", "Trainer", outputs=[])
    with pytest.raises(DataError, match="run run-2 has neither Examples nor statistics any more"):
        diff(runs.folder, tmp_path / "shards")


def test_a_run_whose_shards_are_gone_stands_for_its_statistics(runs, two):
    from tensorflow_data_validation import generate_statistics_from_csv

    from penstock import diff

    stored = generate_statistics_from_csv(str(two / "a.csv"))
    (two / "statistics/Split-train").mkdir(parents=True)
    (two / "statistics/Split-train/FeatureStats.pb").write_bytes(stored.SerializeToString())
    made = [runs.artifact("Examples", two / "gone")]
    made.append(runs.artifact("ExampleStatistics", two / "statistics"))
    runs.node("run-1", "Gen", outputs=made)
    found = diff(runs.folder, two / "b.csv")
    assert (found.rows, [one.column for one in found.different]) == ((100, 100), ["pay"])


def test_a_place_that_is_neither_data_nor_a_run(penstock, two):
    done = penstock("diff", "a.csv", "c.csv", cwd=two)
    assert done.returncode == 2
    assert done.stderr.startswith("penstock: c.csv: no such data, and no such run (")
