import pandas as pd
import pytest
import tensorflow_data_validation as tfdv

from penstock.components.doctor.diff import diff
from penstock.components.errors import DataError, UsageError
from penstock.components.example_gen.ingest import ingest
from penstock.components.example_gen.options import IngestInput
from penstock.components.sources.options import Csv


@pytest.fixture
def tables(tmp_path, monkeypatch):
    """A folder with two CSV files of 100 rows, each with one column that the other lacks."""
    monkeypatch.chdir(tmp_path)
    for name, shift, words, last in (("a", 0, ["cash"], "note"), ("b", 50, ["cash", "app"], "tip")):
        lines = [f"{i + shift}.5,{words[i % len(words)]},{i % 2 or ''},x" for i in range(100)]
        (tmp_path / f"{name}.csv").write_text("\n".join([f"fare,pay,when,{last}", *lines, ""]))
    return tmp_path


def test_distance_type_missing_and_new_values_of_each_column(tables):
    found = diff("a.csv", "b.csv")
    assert (found.names, found.rows) == (("a.csv", "b.csv"), (100, 100))
    text, whole = ("text", "text"), ("whole number", "whole number")
    assert [(c.column, round(c.distance, 2), c.kinds, c.missing, c.new) for c in found.columns] == [
        ("note", 1.0, ("text", None), (0.0, None), ()),
        ("tip", 1.0, (None, "text"), (None, 0.0), ()),
        ("fare", 0.51, ("number", "number"), (0.0, 0.0), ()),
        ("pay", 0.5, text, (0.0, 0.0), ("app",)),
        ("when", 0.0, whole, (0.5, 0.5), ()),
    ]
    reason = "^b.csv: 4 of 5 columns further than 0.2 from a.csv: note 1.00, tip 1.00, fare 0.51"
    with pytest.raises(DataError, match=reason):
        found.raise_different()
    diff("a.csv", "b.csv", limit=0.52, ignore=["note", "tip"]).raise_different()


def test_shards_compare_as_the_table_that_they_were_made_from(tables):
    ingest([IngestInput("a.csv")], "shards")
    found = diff("shards", "a.csv")
    assert found.rows == (100, 100)
    assert max(one.distance for one in found.columns) == 0
    train = diff("shards/Split-train", "shards/Split-eval")
    assert sum(train.rows) == 100
    assert train.rows[0] > train.rows[1]


def test_folder_above_an_artifact_is_refused_with_the_artifact(tables):
    ingest([IngestInput("a.csv")], "node/examples/7")
    with pytest.raises(DataError) as caught:
        diff("node", "a.csv")
    assert str(caught.value) == (
        "node: holds no Examples, statistics or data files; name the folder of an artifact, with "
        "Split-NAME in it, as node/examples/7, or data"
    )


def test_options_apply_to_data_that_is_not_in_shards(tables):
    (tables / "a.csv").write_text("fare\n1\n-\n")
    (tables / "b.csv").write_text("fare\n1\n2\n")
    [fare] = diff("a.csv", "b.csv", source=Csv(null_tokens=("-",))).columns
    assert (fare.kinds, fare.missing) == (("whole number",) * 2, (0.5, 0.0))


def test_stored_statistics_stand_for_the_rows_of_their_split(tables):
    statistics = tfdv.generate_statistics_from_dataframe(pd.read_csv("a.csv"))
    tfdv.write_stats_text(statistics, "text.pb")
    (tables / "stored/Split-train").mkdir(parents=True)
    file = tables / "stored/Split-train/FeatureStats.pb"
    file.write_bytes(statistics.SerializeToString())
    for place in ("stored", "stored/Split-train", str(file)):
        found = diff(place, "a.csv")
        assert found.rows == (100, 100)
        assert max(one.distance for one in found.columns) == 0
    with pytest.raises(DataError, match=r"text\.pb: is no file of statistics"):
        diff("text.pb", "a.csv")
    statistics.datasets[0].num_examples = 0
    file.write_bytes(statistics.SerializeToString())
    with pytest.raises(DataError, match="stored: has no rows to compare"):
        diff("stored", "a.csv")


@pytest.mark.parametrize(
    ("options", "error", "reason"),
    [
        ({"limit": 1.5}, UsageError, "`limit` must be within 0..1"),
        ({"ignore": ["fair"]}, UsageError, "no column 'fair'; expected fare, note"),
        ({"b": "c.csv"}, DataError, "c.csv: no such file"),
    ],
)
def test_wrong_arguments(tables, options, error, reason):
    with pytest.raises(error, match=reason):
        diff("a.csv", **{"b": "b.csv", **options})


def test_values_are_not_new_if_the_first_side_lists_only_the_most_frequent(tables):
    for name, letter in (("a", "x"), ("b", "y")):
        (tables / f"{name}.csv").write_text(
            "\n".join(["word", *(f"{letter}{i}" for i in range(1200)), ""])
        )
    [word] = diff("a.csv", "b.csv").columns
    assert word.new == ()
