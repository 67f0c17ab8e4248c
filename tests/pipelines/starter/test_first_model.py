"""From data of one's own to a pushed and asked model, by the commands that a new user types."""

import datetime
import json
import math
import random
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
import tensorflow as tf
from PIL import Image

pytestmark = pytest.mark.slow

PENSTOCK = Path(sys.executable).with_name("penstock")


def penstock(folder, *arguments):
    done = subprocess.run(
        [PENSTOCK, *map(str, arguments)], cwd=folder, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def first_model(folder, name, *arguments):
    """The summary of a starter's first run."""
    penstock(folder, "init", name, *arguments)
    return json.loads(penstock(folder / name, "run", "--json"))


def predictions(folder, data):
    penstock(folder, "predict", "runs", data, "--out", "predictions.parquet")
    return pq.read_table(folder / "predictions.parquet")


@pytest.mark.ci
def test_a_table_with_dates_and_nulls(tmp_path):
    chance, lines = random.Random(1), ["id,since,age,plan,news,left"]
    for number in range(600):
        day = datetime.date(2020, 1, 1) + datetime.timedelta(chance.randrange(900))
        age = chance.randrange(18, 90)
        says_yes = chance.random() < 1 / (1 + math.exp((50 - age) / 8))
        row = (f"C{number}", day, age, chance.choice("abc"), chance.choice(("true", "false")))
        cells = [str(cell) if chance.random() > 0.05 else "" for cell in row[1:]]
        lines.append(",".join([row[0], *cells, "yes" if says_yes else "no"]))
    (tmp_path / "people.csv").write_text("\n".join(lines) + "\n")
    summary = first_model(tmp_path, "churn", "--data", "people.csv", "--target", "left")
    assert summary["blessed"]
    assert summary["anomalies"] == []
    found = predictions(tmp_path / "churn", tmp_path / "people.csv")
    assert found.num_rows == 600
    right = [row["prediction"] == row["left"] for row in found.to_pylist()]
    assert sum(right) / 600 > 0.75
    model = tf.saved_model.load(summary["pushed"])
    given = {"age": tf.constant([20, 85], tf.int64)}
    specs = model.signatures["serve_columns"].structured_input_signature[1]
    rest = {name: tf.constant([], spec.dtype) for name, spec in specs.items() if name != "age"}
    answer = model.signatures["serve_columns"](**given, **rest)
    assert answer["text"].numpy().tolist() == [b"no", b"yes"]


@pytest.mark.ci
def test_two_targets_one_of_them_a_regression(tmp_path):
    chance, lines = random.Random(2), ["area,place,price,dear"]
    for _ in range(600):
        area, place = chance.uniform(20, 200), chance.choice("abc")
        price = 1000 * area + 20_000 * "abc".index(place) + chance.gauss(0, 5_000)
        lines.append(f"{area:.1f},{place},{price:.1f},{'yes' if price > 130_000 else 'no'}")
    (tmp_path / "houses.csv").write_text("\n".join(lines) + "\n")
    summary = first_model(
        *(tmp_path, "houses", "--data", "houses.csv", "--target", "price", "--target", "dear")
    )
    assert summary["blessed"]
    found = predictions(tmp_path / "houses", tmp_path / "houses.csv")
    error = np.array(found["price/prediction"]) - np.array(found["price"])
    assert np.abs(error).mean() < 20_000
    assert set(found["dear/prediction"].to_pylist()) == {"yes", "no"}


@pytest.mark.ci
def test_a_folder_of_images(tmp_path):
    chance = np.random.default_rng(3)
    for name, colour in (("red", (200, 60, 60)), ("blue", (60, 60, 200))):
        (tmp_path / "photos" / name).mkdir(parents=True)
        for number in range(40):
            pixels = np.clip(chance.normal(colour, 30, (16, 16, 3)), 0, 255).astype(np.uint8)
            Image.fromarray(pixels).save(tmp_path / "photos" / name / f"{number}.png")
    summary = first_model(tmp_path, "colours", "--data", "photos")
    assert summary["blessed"]
    found = predictions(tmp_path / "colours", tmp_path / "photos").to_pylist()
    right = [row["file"].startswith(row["prediction"]) for row in found]
    assert len(right) == 80
    assert sum(right) > 70
