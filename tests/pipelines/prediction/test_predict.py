"""Predictions by a small model, which the tests export, for rows in files."""

from types import SimpleNamespace

import keras
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tensorflow as tf

from penstock.components.errors import DataError, UsageError
from penstock.components.trainer.serving import Served, serve_columns
from penstock.pipelines.cli.predict import command
from penstock.pipelines.prediction.model import Explainer
from penstock.pipelines.prediction.predict import predict

SPEC = {
    "age": tf.io.VarLenFeature(tf.int64),
    "monthly fee": tf.io.VarLenFeature(tf.float32),
    "plan": tf.io.VarLenFeature(tf.string),
}


class Graph(tf.Module):
    """Stands in for Transform's function: the age as a float, or 100 if it is missing."""

    def __call__(self, raw):
        return {"x": tf.cast(tf.reshape(tf.sparse.to_dense(raw["age"], 100), [-1, 1]), tf.float32)}


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """The root of runs that pushed two versions; the second predicts yes for old people."""
    root = tmp_path_factory.mktemp("runs")
    for version, scale in (("9", 0.0), ("10", 0.01)):
        x = keras.Input((1,), name="x")
        model = keras.Model({"x": x}, keras.layers.Rescaling(scale)(x))
        module = tf.Module()
        module.model = model
        signature = serve_columns(model, Graph(), SPEC, {"left_xf": Served(classes=("no", "yes"))})
        tf.saved_model.save(
            module, str(root / "serving_model" / version), {"serve_columns": signature}
        )
    return root


def rows_of(tmp_path, *lines, header="id,age,monthly fee,plan"):
    file = tmp_path / "rows.csv"
    file.write_text("\n".join([header, *lines]) + "\n")
    return str(file)


def test_the_rows_come_back_with_predictions(tmp_path, runs):
    out = tmp_path / "out" / "predictions.parquet"
    data = rows_of(tmp_path, "a1,20,1.5,pro", "b2,,,", "c3,70,2,basic")
    assert predict(str(runs), data, out) == 3
    table = pq.read_table(out)
    probabilities = {"no": pytest.approx(0.8), "yes": pytest.approx(0.2)}
    assert table.to_pylist()[0] == {
        **{"id": "a1", "age": 20, "monthly fee": 1.5, "plan": "pro"},
        **{"prediction": "no", "probability": pytest.approx(0.8), "probabilities": probabilities},
    }
    assert table["id"].to_pylist() == ["a1", "b2", "c3"]
    assert table["age"].to_pylist() == [20, None, 70]
    assert table["prediction"].to_pylist() == ["no", "yes", "yes"]
    assert [path.name for path in out.parent.iterdir()] == ["predictions.parquet"]


def test_explanation_names_the_columns_that_moved_a_prediction(tmp_path, runs):
    out = tmp_path / "predictions.parquet"
    data = rows_of(tmp_path, "a1,20,1.5,pro", "b2,,,", "c3,70,2,basic", "d4,30,2,pro")
    predict(str(runs), data, out, explain=True)
    # The effects are relative to the median age of 30, for which the model predicts `no`
    # with a probability of 0.7. The model uses no other column.
    assert pq.read_table(out)["because"].to_pylist() == [
        "age=20 (+0.1)", "age=nothing (+0.7)", "age=70 (+0.4)", "",
    ]  # fmt: skip
    with pytest.raises(DataError, match=r"--explain .*: give at least two rows"):
        predict(str(runs), rows_of(tmp_path, "a1,20,1.5,pro"), out, explain=True, overwrite=True)


def test_explanation_names_a_column_as_the_data_does():
    model = SimpleNamespace(
        lists=(), outputs=lambda columns: {"": {"value": columns["column__kept__since_"].numpy()}}
    )
    columns = {"column__kept__since_": tf.constant([1.0, 2.0, 4.0])}
    explainer = Explainer(model, columns, {"column__kept__since_": "(kept, since)"})
    assert explainer.because(columns)["because"].to_pylist() == [
        "(kept, since)=1 (-1)", "", "(kept, since)=4 (+2)",
    ]  # fmt: skip


def test_predictions_as_csv_have_a_column_for_each_class(tmp_path, runs):
    out = tmp_path / "predictions.csv"
    assert predict(str(runs), rows_of(tmp_path, "a1,20,1.5,pro"), out) == 1
    header, row = out.read_text().splitlines()
    assert header == (
        '"id","age","monthly fee","plan","prediction","probabilities.no","probabilities.yes",'
        '"probability"'
    )
    assert row.startswith('"a1",20,1.5,"pro","no",0.8')


def test_parquet_and_a_version_of_the_model(tmp_path, runs):
    table = pa.table({"age": [20, 70], "monthly fee": [1.0, None], "plan": ["a", None]})
    pq.write_table(table, tmp_path / "rows.parquet")
    out = tmp_path / "p.parquet"
    assert predict(str(runs / "serving_model" / "9"), str(tmp_path / "rows.parquet"), out) == 2
    assert pq.read_table(out)["prediction"].to_pylist() == ["no", "no"]


@pytest.mark.parametrize(
    ("header", "line", "message"),
    [
        (
            "id,age,plan",
            "a,1,b",
            r"1 column of the model missing: monthly_fee; the file has id, age, plan",
        ),
        (
            "id,age,monthly fee,plan",
            "a,1.5,2,b",
            r"rows.csv: line 3 \(row 2\), column 'age': '1.5' is not an integer",
        ),
        ("id,age,monthly fee,plan", "a,1", r"rows.csv: line 3 \(row 2\): 2 fields"),
        (
            "age,monthly fee,plan,prediction",
            "1,1,a,mine",
            "columns with names of predictions: prediction; rename",
        ),
    ],
)
def test_rows_that_do_not_fit_are_one_line(tmp_path, runs, header, line, message):
    ok = ",".join("1" for _ in header.split(","))
    data = rows_of(tmp_path, ok, line, header=header)
    with pytest.raises(DataError, match=message):
        predict(str(runs), data, tmp_path / "p.parquet")
    assert [path.name for path in tmp_path.iterdir()] == ["rows.csv"]


def test_option_of_the_table_on_the_command_line_is_used(tmp_path, runs):
    data = rows_of(tmp_path, "a1,none,1.5,pro")
    with pytest.raises(DataError, match="'age': 'none'"):
        command(str(runs), data, tmp_path / "out.parquet")
    command(str(runs), data, tmp_path / "out.parquet", source=["null_tokens=['', none]"])
    assert pq.read_table(tmp_path / "out.parquet")["age"].to_pylist() == [None]
    with pytest.raises(UsageError, match=r"^--source delimiter=\.\.\. must be one ASCII"):
        command(str(runs), data, tmp_path / "two.parquet", source=["delimiter=ab"])


def test_a_file_that_is_there_is_kept_unless_it_may_be_replaced(tmp_path, runs):
    out = tmp_path / "p.parquet"
    out.write_text("of last week")
    data = rows_of(tmp_path, "a,1,1,b")
    with pytest.raises(UsageError, match=r"p.parquet exists already; .* or pass --overwrite"):
        predict(str(tmp_path / "no-model"), data, out)
    out.unlink()
    with pytest.raises(UsageError, match=r"p.parquet exists already"):
        predict(str(runs), data, out, on_rows=lambda *_: out.write_text("of last week"))
    assert out.read_text() == "of last week"
    assert predict(str(runs), data, out, overwrite=True) == 1
    assert pq.read_table(out)["id"].to_pylist() == ["a"]


@pytest.mark.parametrize(
    ("model", "out", "error", "message"),
    [
        ("", "p.parquet", DataError, "no model; expected a folder with saved_model"),
        ("zz://b/m", "p.parquet", UsageError, "^zz://b/m: files are read from paths and s3, gs"),
        ("", "", UsageError, "is a folder; name a file"),
        ("no-model", "p.txt", UsageError, "name a file that ends in .parquet or .csv$"),
    ],
)
def test_wrong_place_of_a_model_or_an_output_is_one_line(tmp_path, model, out, error, message):
    model = model if "://" in model else str(tmp_path / model)
    with pytest.raises(error, match=message):
        predict(model, "rows.csv", tmp_path / out)


def test_a_model_without_a_signature_of_columns_is_refused(tmp_path):
    module = tf.Module()
    module.f = tf.function(lambda x: x, input_signature=[tf.TensorSpec([], tf.float32)])
    tf.saved_model.save(module, str(tmp_path / "model"), {"other": module.f})
    with pytest.raises(UsageError, match="no signature serve_columns or serve_images, it has"):
        predict(str(tmp_path / "model"), "rows.csv", tmp_path / "p.parquet")


def test_a_model_of_lists_takes_lists(tmp_path):
    ids = keras.Input((None,), name="ids", dtype="int64")
    model = keras.Model({"ids": ids}, keras.ops.sum(ids, axis=1, keepdims=True))
    module = tf.Module()
    module.model = model
    spec = {"ids": tf.io.RaggedFeature(tf.int64)}
    signature = serve_columns(model, None, spec, {"": Served()})
    tf.saved_model.save(module, str(tmp_path / "model"), {"serve_columns": signature})
    rows, out = tmp_path / "rows.parquet", tmp_path / "out.parquet"
    pq.write_table(pa.table({"ids": [[1, 2], [], [40], None]}), rows)
    assert predict(str(tmp_path / "model"), str(rows), out) == 4
    table = pq.read_table(out)
    assert table["ids"].to_pylist() == [[1, 2], [], [40], None]
    assert table["prediction"].to_pylist() == [3.0, 0.0, 40.0, 0.0]
    single = rows_of(tmp_path, "7", "8", header="ids")
    assert predict(str(tmp_path / "model"), single, out, overwrite=True) == 2
    assert pq.read_table(out)["prediction"].to_pylist() == [7.0, 8.0]


def test_lists_for_a_model_of_single_values_are_one_line(tmp_path, runs):
    table = pa.table({"age": [[20], [70, 1]], "monthly fee": [1.0, None], "plan": ["a", None]})
    pq.write_table(table, tmp_path / "rows.parquet")
    message = r"rows.parquet: column 'age' has type list<\w+: int64>, expected INT as the model h"
    with pytest.raises(DataError, match=message):
        predict(str(runs), str(tmp_path / "rows.parquet"), tmp_path / "p.parquet")
