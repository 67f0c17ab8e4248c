"""Metrics of predictions in a table equal TFMA's."""

import json
from functools import cache

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
import tensorflow_model_analysis as tfma

import penstock
from penstock import DataError
from penstock.pipelines.blocks.config import EvaluationOptions
from penstock.pipelines.blocks.evaluation import eval_config
from penstock.pipelines.blocks.target import Target

ROWS = 300


@pytest.fixture(scope="module")
def columns():
    rng = np.random.default_rng(0)
    shares = rng.dirichlet([1, 1, 1], ROWS)
    chance = rng.random(ROWS)
    return {
        "number": rng.normal(3, 2, ROWS),
        "guess": rng.normal(3, 2, ROWS),
        "yes": (rng.random(ROWS) < chance).astype(np.int64),
        "chance": chance,
        "kind": rng.integers(3, size=ROWS),
        "shares": shares.tolist(),
        "w": rng.integers(1, 5, ROWS) / 4,
        "town": rng.choice(["oslo", "rome"], ROWS),
        "hour": rng.integers(3, size=ROWS),
    }


@pytest.fixture(scope="module")
def by_tfma(columns):
    """A function that returns TFMA's metrics of the table, by slice and name."""

    @cache
    def analyse(task, label, prediction, weight):
        classes = {"binary": ("no", "yes"), "classes": ("a", "b", "c"), "regression": ()}[task]
        options = EvaluationOptions(slices=("town", "hour"))
        config = eval_config([Target(label, task, classes, label)], options)
        spec = config.model_specs[0]
        spec.prediction_key, spec.example_weight_key = prediction, weight or ""
        spec.preprocessing_function_names[:] = []
        found = tfma.analyze_raw_data(pd.DataFrame(columns), config).slicing_metrics
        return {
            ", ".join(f"{name}={value}" for name, value in key) or "overall": {
                name: value["doubleValue"]
                for name, value in of[""][""].items()
                if "doubleValue" in value
            }
            for key, of in found
        }

    return analyse


CASES = [
    (*task, weight)
    for weight in (None, "w")
    for task in (
        ("binary", "yes", "chance"),
        ("classes", "kind", "shares"),
        ("regression", "number", "guess"),
    )
]


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_metrics_of_a_table_equal_tfma(case, columns, by_tfma, tmp_path):
    _, label, prediction, weight = case
    pq.write_table(pa.table(columns), tmp_path / "p.parquet")
    found = penstock.evaluate(
        str(tmp_path / "p.parquet"),
        tmp_path / "out",
        label=label,
        prediction=prediction,
        weight=weight,
        slices=["town", "hour"],
    )
    theirs = by_tfma(*case)
    assert found.metrics.keys() == theirs.keys()
    assert len(theirs) == 6
    for where, values in theirs.items():
        assert found.metrics[where] == pytest.approx(values, rel=2e-5, abs=1e-6)
    assert found.rows == ROWS
    assert json.loads((tmp_path / "out" / "evaluation.json").read_text())["rows"] == ROWS
    assert "town=oslo" in (tmp_path / "out" / "evaluation.html").read_text()
    assert tfma.load_eval_result(str(tmp_path / "out")).slicing_metrics


@pytest.mark.slow
@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_csv_and_pairs_of_probabilities_are_judged_as_two_classes(
    ending, columns, by_tfma, tmp_path
):
    chance, yes = columns["chance"], columns["yes"]
    if ending == "csv":
        table = pa.table({"label": yes, "prediction": chance})
        pyarrow.csv.write_csv(table, tmp_path / "p.csv")
    else:
        pairs = [{"no": 1 - one, "yes": one} for one in chance]
        table = pa.table({"label": np.array(["no", "yes"])[yes], "prediction": pairs})
        pq.write_table(table, tmp_path / "p.parquet")
    found = penstock.evaluate(
        str(tmp_path / f"p.{ending}"), tmp_path / "out", thresholds={"AUC": 0.99, "Recall": 0.2}
    )
    theirs = by_tfma(*CASES[0])["overall"]
    assert found.metrics["overall"] == pytest.approx(theirs, rel=1e-5)
    assert found.blessed is False
    assert found.failures == (f"auc of overall is {theirs['auc']:.4f}; expected at least 0.99",)
    low, high = found.intervals["overall"]["auc"]
    assert low < theirs["auc"] < high


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ({"label": [0, 1]}, "no column prediction; it has label"),
        ({"label": [0, None], "prediction": [0.1, 0.2]}, "1 of 2 values are missing"),
        ({"label": [0, 1], "prediction": [0.1, float("nan")]}, "the first is number 2"),
        ({"label": [0, 1], "prediction": ["a", "b"]}, "string; expected numbers"),
        ({"label": ["a", "b"], "prediction": [0.1, 0.2]}, "'label' holds texts"),
        ({"label": ["a", "c"], "prediction": [{"a": 0.1, "b": 0.9}] * 2}, "'c' is none of"),
        ({"label": [0, 3], "prediction": [[0.1, 0.2, 0.7]] * 2}, "a label is 3; expected 0..2"),
        ({"label": [0, 1], "prediction": [[0.1, 0.9], [0.1]]}, "lists of 2, 1 values"),
        ({"label": [0, 1], "prediction": [[-3.0, 0.1, 4.2]] * 2}, "within 0..1"),
        ({"label": pa.array([], pa.int64()), "prediction": pa.array([], pa.int64())}, "no row"),
    ],
)
def test_table_that_cannot_be_judged_is_one_line_and_leaves_nothing(table, said, tmp_path):
    pq.write_table(pa.table(table), tmp_path / "p.parquet")
    with pytest.raises(DataError, match=said):
        penstock.evaluate(str(tmp_path / "p.parquet"), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_labels_of_other_libraries_and_a_folder_of_predictions(columns, tmp_path):
    names = pa.array([["no", "yes"][one] for one in columns["yes"]])
    shares = pa.StructArray.from_arrays([1 - columns["chance"], columns["chance"]], ["no", "yes"])
    found = []
    for labels in (names.cast(pa.large_string()), names.dictionary_encode()):
        folder = tmp_path / str(labels.type).partition("<")[0]
        folder.mkdir()
        pq.write_table(pa.table({"y": labels, "p": shares}), folder / "predictions.parquet")
        result = penstock.evaluate(str(folder), folder / "out", label="y", prediction="p")
        found.append(result.metrics["overall"]["auc"])
    assert found[0] == found[1] > 0.7
